package harness

// condorConfiguration is the whole of HTCondor's configuration. Everything is on one machine and lies below /run/condor;
// what takes minutes at a site takes seconds here. The GPUs are names only, and processes are followed without cgroups.
const condorConfiguration = `
RELEASE_DIR = /usr
LOCAL_DIR = /run/condor
LOCAL_CONFIG_FILE =
RUN = $(LOCAL_DIR)
LOG = $(LOCAL_DIR)/log
LOCK = $(LOCAL_DIR)/lock
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
BIN = $(RELEASE_DIR)/bin
SBIN = $(RELEASE_DIR)/sbin
LIB = $(RELEASE_DIR)/lib/condor
LIBEXEC = $(RELEASE_DIR)/libexec/condor
SHARE = $(RELEASE_DIR)/share/condor

CONDOR_HOST = 127.0.0.1
FULL_HOSTNAME = head.pool.test
NETWORK_HOSTNAME = head.pool.test
DEFAULT_DOMAIN_NAME = pool.test
UID_DOMAIN = pool.test
FILESYSTEM_DOMAIN = pool.test
TRUST_UID_DOMAIN = True
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
NO_DNS = True
ENABLE_IPV6 = False
use ROLE: CentralManager
use ROLE: Submit
use ROLE: Execute
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
SEC_CLIENT_AUTHENTICATION_METHODS = FS
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_DAEMON = *
ALLOW_ADMINISTRATOR = *
ALLOW_NEGOTIATOR = *
ALLOW_ADVERTISE_STARTD = *
ALLOW_ADVERTISE_SCHEDD = *
ALLOW_ADVERTISE_MASTER = *

NUM_CPUS = 16
MEMORY = 32768
NUM_SLOTS = 1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
MACHINE_RESOURCE_GPUs = GPU-aaaa1111, GPU-bbbb2222
START = True
SUSPEND = False
PREEMPT = False
KILL = False
WANT_SUSPEND = False
BASE_CGROUP =
CGROUP_MEMORY_LIMIT_POLICY = none
MOUNT_PRIVATE_DEV_SHM = False
MOUNT_UNDER_SCRATCH =
USE_PID_NAMESPACES = False
PID_SNAPSHOT_INTERVAL = 1

GROUP_NAMES = group_physics, group_bio
GROUP_QUOTA_group_physics = 8
GROUP_QUOTA_group_bio = 8
GROUP_ACCEPT_SURPLUS = True
MAX_JOBS_SUBMITTED = 200000
JOB_START_COUNT = 20
JOB_START_DELAY = 0

NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_UPDATE_INTERVAL = 2
SCHEDD_INTERVAL = 2
UPDATE_INTERVAL = 2
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_FACTOR = 1.0
MASTER_BACKOFF_CEILING = 1
MASTER_NEW_BINARY_RESTART = NEVER
`

// condorSecondSchedd has a machine run a second schedd, named second@head.pool.test.
const condorSecondSchedd = `
SECOND = $(SCHEDD)
SECOND_ARGS = -f -local-name second
DAEMON_LIST = $(DAEMON_LIST), SECOND
DC_DAEMON_LIST = +SECOND
SECOND.SCHEDD_NAME = second
SECOND.SCHEDD_LOG = $(LOG)/SecondLog
SECOND.SPOOL = $(LOCAL_DIR)/second
SECOND.HISTORY = $(LOCAL_DIR)/second/history
SECOND.SCHEDD_ADDRESS_FILE = $(LOCAL_DIR)/second/.schedd_address
SECOND.SCHEDD_DAEMON_AD_FILE = $(LOCAL_DIR)/second/.schedd_classad
`

// condorUsers may submit jobs.
var condorUsers = []string{"alice", "bob", "carol"}

// condorTools are the tools that Bin has.
var condorTools = []string{
	"condor_config_val", "condor_history", "condor_hold", "condor_off", "condor_on", "condor_q", "condor_qedit", "condor_reconfig",
	"condor_release", "condor_rm", "condor_status", "condor_submit", "condor_submit_dag", "condor_suspend", "condor_userprio",
}
