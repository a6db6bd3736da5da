"""Answers each line on standard input with what psutil measures, as one line of JSON. The line cpu asks for CPU times only."""
import json
import sys

import psutil


def plain(value):
    if hasattr(value, "_asdict"):
        return {name: plain(v) for name, v in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "name") and hasattr(value, "value"):
        return value.name
    return value


def cpu():
    return {
        "cpu_times": psutil.cpu_times(),
        "cpu_percent": psutil.cpu_percent(interval=None),
        "cpu_times_percent": psutil.cpu_times_percent(interval=None),
    }


def everything():
    return {
        "cpu_times": psutil.cpu_times(),
        "cpu_times_percpu": psutil.cpu_times(percpu=True),
        "cpu_count": {"logical": psutil.cpu_count(), "physical": psutil.cpu_count(logical=False)},
        "cpu_stats": psutil.cpu_stats(),
        "cpu_freq": psutil.cpu_freq(),
        "cpu_freq_percpu": psutil.cpu_freq(percpu=True),
        "virtual_memory": psutil.virtual_memory(),
        "swap_memory": psutil.swap_memory(),
        "disk_partitions": psutil.disk_partitions(),
        "disk_usage": psutil.disk_usage("/"),
        "disk_io_counters": psutil.disk_io_counters(nowrap=False),
        "disk_io_counters_perdisk": psutil.disk_io_counters(perdisk=True, nowrap=False),
        "net_io_counters": psutil.net_io_counters(nowrap=False),
        "net_io_counters_pernic": psutil.net_io_counters(pernic=True, nowrap=False),
        "net_connections": psutil.net_connections(),
        "net_if_addrs": psutil.net_if_addrs(),
        "net_if_stats": psutil.net_if_stats(),
        "sensors_temperatures": psutil.sensors_temperatures(),
        "sensors_fans": psutil.sensors_fans(),
        "sensors_battery": psutil.sensors_battery(),
        "boot_time": psutil.boot_time(),
        "users": psutil.users(),
    }


for line in sys.stdin:
    answer = cpu() if line == "cpu\n" else everything()
    print(json.dumps(plain(answer)), flush=True)
