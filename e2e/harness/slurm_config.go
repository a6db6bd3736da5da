package harness

// slurmConfiguration is slurm.conf up to the nodes. There is one machine without cgroups: processes are followed by
// their group, and nodes have the hardware that is written here. The scheduler looks again each second.
const slurmConfiguration = `
ClusterName=hpc
SlurmctldHost=head
SlurmUser=slurm
SlurmdUser=root
ProctrackType=proctrack/pgid
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue,default_queue_depth=500,max_array_tasks=100000
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightAge=1000
PriorityWeightJobSize=100
PriorityWeightQOS=100000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=head
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100,gres/gpu:l40s
GresTypes=gpu
Licenses=matlab:10,ansys:5
MaxArraySize=100001
MaxJobCount=300000
MinJobAge=600
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool/%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.%n.pid
KillWait=2
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=86400
ResumeTimeout=3600
PrivateData=cloud
DefMemPerCPU=1000
`

// slurmNodes is the cluster that a test gets unless it brings its own. dead01 is never there; the cloud's nodes are
// powered down and stay powering up once a job wants them (PrivateData=cloud shows them).
const slurmNodes = `
NodeName=cpu[01-04] NodeHostname=head Port=[7001-7004] CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=256000 Feature=cascadelake,ib State=UNKNOWN
NodeName=mem01 NodeHostname=head Port=7005 CPUs=128 Sockets=2 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=2000000 MemSpecLimit=8192 State=UNKNOWN
NodeName=gpu[01-02] NodeHostname=head Port=[7006-7007] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:a100:4 State=UNKNOWN
NodeName=gpu03 NodeHostname=head Port=7008 CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:h100:2,gpu:l40s:2 State=UNKNOWN
NodeName=gpu04 NodeHostname=head Port=7009 CPUs=16 Sockets=1 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000 Gres=gpu:4 State=UNKNOWN
NodeName=dead01 NodeHostname=head Port=7010 CPUs=64 RealMemory=256000 State=UNKNOWN
NodeName=cloud[01-03] CPUs=16 RealMemory=64000 State=CLOUD
NodeName=fut[01-02] CPUs=16 RealMemory=64000 State=FUTURE
PartitionName=cpu Nodes=cpu[01-04],mem01,dead01 Default=YES MaxTime=2-00:00:00 State=UP PriorityTier=10
PartitionName=gpu Nodes=gpu[01-04] MaxTime=1-00:00:00 State=UP
PartitionName=all Nodes=cpu[01-04],mem01,gpu[01-04] MaxTime=UNLIMITED OverSubscribe=FORCE:2 State=UP
PartitionName=cloud Nodes=cloud[01-03] State=UP
PartitionName=maint Nodes=cpu[03-04] State=DOWN
PartitionName=secret Nodes=mem01 Hidden=YES AllowAccounts=physics State=UP
`

// gresConfiguration gives nodes GPUs.
const gresConfiguration = `
AutoDetect=off
NodeName=gpu[01-02] Name=gpu Type=a100 File=/run/gpu[0-3]
NodeName=gpu03 Name=gpu Type=h100 File=/run/gpu[0-1]
NodeName=gpu03 Name=gpu Type=l40s File=/run/gpu[2-3]
NodeName=gpu04 Name=gpu File=/run/gpu[0-3]
`

const slurmdbdConfiguration = `
DbdHost=head
SlurmUser=slurm
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
`

// slurmAccounts are commands of sacctmgr.
const slurmAccounts = `
add cluster hpc
add qos high set priority=1000
add qos tiny set MaxTRESPerUser=cpu=4
add account physics description=physics organization=sci fairshare=10
add account chem description=chem organization=sci fairshare=20
add account lattice parent=physics description=sub organization=sci
add user alice account=physics,lattice defaultaccount=physics qos=normal,high,tiny
add user bob account=chem qos=normal,tiny
add user carol account=chem qos=normal GrpTRES=cpu=8
`

// slurmdNodes are the nodes of slurmNodes that have a slurmd.
var slurmdNodes = []string{"cpu01", "cpu02", "cpu03", "cpu04", "mem01", "gpu01", "gpu02", "gpu03", "gpu04"}
