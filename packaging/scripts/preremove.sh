#!/bin/sh
# Before the files go. dpkg gives "remove", rpm 0; else it is an upgrade.
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac

# A Telegraf whose configuration names a program that is not there ends at its start.
named=$(grep -lrE '^[^#]*/usr/lib/telegraf-hpc/' /etc/telegraf/telegraf.conf /etc/telegraf/telegraf.d 2>/dev/null || true)
if [ -n "$named" ]; then
	echo "telegraf-hpc: Telegraf will not start again while these name programs of /usr/lib/telegraf-hpc:" >&2
	echo "$named" | sed 's/^/  /' >&2
fi
