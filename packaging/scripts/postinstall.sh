#!/bin/sh
# After the files are there. dpkg gives "configure" and the version before, if there was one; rpm how many there are now.
set -e
case "$1" in
configure) [ -z "$2" ] || upgrade=yes ;;
1) ;;
[2-9]*) upgrade=yes ;;
*) exit 0 ;;
esac

# State that is there already stays as the administrator has left it.
if [ ! -d /var/lib/telegraf-hpc ]; then
	mkdir -p /var/lib/telegraf-hpc
	chown telegraf:telegraf /var/lib/telegraf-hpc
	chmod 0750 /var/lib/telegraf-hpc
fi

# plugins tells whether a Telegraf of this machine runs programs of ours.
plugins() {
	for exe in /proc/[0-9]*/exe; do
		case "$(readlink "$exe" 2>/dev/null)" in /usr/lib/telegraf-hpc/*) return 0 ;; esac
	done
	return 1
}

# allowed tells whether this machine lets packages restart services (invoke-rc.d(8), of which not all of OpenRC's
# machines have what it needs; deb-systemd-invoke asks by itself).
allowed() {
	[ ! -x /usr/sbin/policy-rc.d ] || /usr/sbin/policy-rc.d telegraf restart
}

# A Telegraf that runs the old programs gets the new ones; one that does not run is not started.
if [ "${upgrade:-}" = yes ]; then
	[ ! -d /run/systemd/system ] || systemctl --system daemon-reload >/dev/null || true # Drop-ins may be other ones.
	if plugins; then
		if [ -d /run/systemd/system ]; then
			if command -v deb-systemd-invoke >/dev/null; then
				deb-systemd-invoke try-restart telegraf.service >/dev/null || true
			else
				systemctl try-restart telegraf.service >/dev/null 2>&1 || true
			fi
		elif [ -x /etc/init.d/telegraf ] && /etc/init.d/telegraf status >/dev/null 2>&1 && allowed; then
			/etc/init.d/telegraf restart || true
		fi
	fi
fi
