#!/bin/sh
# After the files have gone. dpkg gives "remove" and perhaps later "purge", rpm 0; else it is an upgrade.
set -e
case "$1" in
remove | 0)
	# Drop-ins of ours that were switched on lead nowhere now.
	for link in /etc/systemd/system/telegraf.service.d/*; do
		case "$(readlink "$link" 2>/dev/null)" in
		/usr/share/telegraf-hpc/systemd/*) [ -e "$link" ] || rm -f "$link" ;;
		esac
	done
	[ ! -d /run/systemd/system ] || systemctl --system daemon-reload >/dev/null || true
	;;
purge)
	# The user telegraf stays: it is Telegraf's, too.
	rm -rf /var/lib/telegraf-hpc
	;;
esac
