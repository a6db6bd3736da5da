package dashboards

func usersBoard() board {
	return board{
		name: "users", title: "HPC: logged-in users",
		about:     "Who is logged in on login nodes, and who has a Jupyter server. From who_users and jupyter_users.",
		variables: []variable{{name: "host", label: "Host", from: "who_users", field: "users"}},
		rows:      []row{loginsNow(), logins(), jupyter()},
	}
}

func loginsNow() row {
	of := func(v value) query { return ask("who_users", v).choose("host").sum() }
	return row{"Now", []panel{
		stat("Users", "Users who are logged in, summed over hosts: one who is on two hosts counts twice.", "none", of(last("users", "users"))),
		stat("Sessions", "Sessions that are open.", "none", of(last("sessions", "sessions"))),
		stat("From afar", "Sessions from other hosts.", "none", of(last("remote", "remote_sessions"))),
		stat("Idle", "Sessions in which nobody has typed for a while (option idle_after).", "none", of(last("idle", "idle_sessions"))),
		stat("Jupyter users", "Users with a Jupyter server, summed over sources.", "none",
			ask("jupyter_users", last("users", "users")).beside("kind", "source").maybeBeside("namespace").sum()),
		stat("Jupyter servers", "Jupyter servers that run or start.", "none",
			ask("jupyter_users", last("servers", "servers")).beside("kind", "source").maybeBeside("namespace").sum()),
	}}
}

func logins() row {
	return row{"Logins", []panel{
		lines("Users by host", "Users who are logged in.", "none", ofHost("who_users", last("users", "users"))),
		stack("Sessions by host", "Sessions that are open.", "none", ofHost("who_users", last("sessions", "sessions"))),
		tabled("Who is logged in", "The users of each host. Needs list_users of who_users.",
			table("who_users", last("users", "users"), last("sessions", "sessions"), last("who", "user_list")).choose("host").each("host")).
			last("10m").most("users").size(10, 9),
		tabled("Sessions", "Sessions that began in the time range, as they were told of last. Needs session_rows of who_users.",
			list("who_session", "host", "user", "tty", "service", "from", "remote", "idle", "ended").choose("host"), as("idle", "s")).size(14, 9),
	}}
}

func jupyter() row {
	of := func(measurement string, v value) query {
		return ask(measurement, v).each("source", "kind").maybeBeside("namespace")
	}
	return row{"Jupyter", []panel{
		lines("Users by source", "Users with a Jupyter server, by the Kubernetes or JupyterHub that was asked.", "none",
			of("jupyter_users", last("users", "users")).sum()),
		stack("Servers by source", "Jupyter servers that run or start.", "none", of("jupyter_users", last("servers", "servers")).sum()),
		lines("Sources", "Whether Kubernetes or JupyterHub answers: 0 where a namespace of it does not.", "none",
			of("jupyter_users_source", last("up", "up")).lowest()).to(1),
		tabled("Who has a server", "The users of each source. Needs list_users of jupyter_users.",
			table("jupyter_users", last("users", "users"), last("servers", "servers"), last("who", "user_list")).
				each("source", "kind", "namespace")).last("10m").most("users").size(12, 8),
	}}
}
