#!/bin/sh
# Before the files are there: the user and the group that they belong to, as Telegraf's own packages make them.
set -e
getent group telegraf >/dev/null || groupadd -r telegraf
getent passwd telegraf >/dev/null || useradd -r -M -s /bin/false -d /etc/telegraf -g telegraf telegraf
