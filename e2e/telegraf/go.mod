module telegraf-hpc/e2e/telegraf

go 1.26.0

require github.com/influxdata/telegraf v1.37.2

require (
	github.com/Mellanox/rdmamap v1.1.0 // indirect
	github.com/facebook/time v0.0.0-20250903103710-a5911c32cdb9 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.18.3 // indirect
	github.com/nats-io/nats.go v1.48.0 // indirect
	github.com/nats-io/nkeys v0.4.12 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/peterbourgon/unixtransport v0.0.7 // indirect
	github.com/safchain/ethtool v0.7.0 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/crypto v0.47.0 // indirect
	golang.org/x/oauth2 v0.34.0 // indirect
	golang.org/x/sys v0.40.0 // indirect
)
