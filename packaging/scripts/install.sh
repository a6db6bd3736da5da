#!/bin/sh
# Installs or upgrades telegraf-hpc from this folder, for systems without dpkg and rpm; run it as root. As those do, it
# replaces programs by renaming, so that none is ever missing; configurations that are there stay, and the new ones are put
# beside them as NAME.conf.new if they are other ones.
set -eu
umask 022
cd "$(dirname "$0")"
sh ./preinstall.sh
upgrade=1
[ ! -d /usr/lib/telegraf-hpc ] || upgrade=2

# put copies a file to a path below /, with a mode and a group.
put() {
	mkdir -p "$(dirname "/$2")"
	cp "$1" "/$2.telegraf-hpc-new"
	chown "root:$4" "/$2.telegraf-hpc-new"
	chmod "$3" "/$2.telegraf-hpc-new"
	mv -f "/$2.telegraf-hpc-new" "/$2"
}

find usr -type f | while read -r file; do
	if [ -x "$file" ]; then put "$file" "$file" 0755 root; else put "$file" "$file" 0644 root; fi
done
for file in etc/telegraf/*.conf; do
	if [ ! -e "/$file" ]; then
		put "$file" "$file" 0640 telegraf
	elif ! cmp -s "$file" "/$file"; then
		put "$file" "$file.new" 0640 telegraf
	fi
done
sh ./postinstall.sh "$upgrade"
