package slurm_load

import (
	"math"
	"strings"
	"time"

	"telegraf-hpc/internal/slurm"
)

// gatherSlow asks for what has an interval of its own.
func (p *SlurmLoad) gatherSlow(o *out) {
	for _, group := range []struct {
		name     string
		interval time.Duration
		hidden   string // what PrivateData calls it
		gather   func(o *out) error
	}{
		{"reservation", time.Duration(p.ReservationInterval), "reservations", p.gatherReservations},
		{"license", time.Duration(p.LicenseInterval), "", p.gatherLicenses},
		{"fairshare", time.Duration(p.FairshareInterval), "usage", p.gatherShares},
	} {
		if p.collects(group.name) && p.shown(o.acc, group.hidden) && p.due(group.name, group.interval, o.now) {
			p.fail(o.acc, group.name, group.gather(o))
		}
	}
}

func (p *SlurmLoad) gatherReservations(o *out) error {
	reservations, err := p.client.Reservations(p.ctx)
	for i := range reservations {
		addReservation(o, &reservations[i])
	}
	return err
}

func addReservation(o *out, r *slurm.Reservation) {
	active := int64(0)
	if r.State == "ACTIVE" {
		active = 1
	}
	fields := map[string]any{"active": active}
	setKnown(fields, "nodes", r.Nodes)
	setKnown(fields, "cores", r.Cores)
	setTime(fields, "start", r.Start)
	setTime(fields, "end", r.End)
	for name, text := range map[string]string{
		"flags": strings.Join(r.Flags, ","), "users": strings.Join(r.Users, ","), "accounts": strings.Join(r.Accounts, ","),
		"partition": r.Partition, "node_list": r.NodeList, "licenses": r.Licenses,
	} {
		if text != "" {
			fields[name] = text
		}
	}
	o.add("slurm_reservation", map[string]string{"reservation": r.Name}, fields)
}

func (p *SlurmLoad) gatherLicenses(o *out) error {
	licenses, err := p.client.Licenses(p.ctx)
	for _, l := range licenses {
		fields := make(map[string]any)
		setKnown(fields, "total", l.Total)
		setKnown(fields, "used", l.Used)
		setKnown(fields, "free", l.Free)
		setKnown(fields, "reserved", l.Reserved)
		if p.queue.licenses != nil {
			fields["pending"] = p.queue.licenses[l.Name]
		}
		o.add("slurm_license", map[string]string{"license": l.Name}, fields)
	}
	return err
}

func (p *SlurmLoad) gatherShares(o *out) error {
	shares, err := p.client.Shares(p.ctx)
	for _, s := range shares {
		tags := map[string]string{"account": s.Account}
		if s.User != "" {
			name, shown := p.users.Name(s.User)
			if !shown {
				continue
			}
			tags["user"] = name
		}
		if s.Partition != "" {
			tags["partition"] = s.Partition
		}
		fields := make(map[string]any)
		setKnown(fields, "raw_shares", s.RawShares)
		setKnown(fields, "raw_usage", s.RawUsage)
		for name, value := range map[string]float64{
			"norm_shares": s.NormShares, "norm_usage": s.NormUsage, "effective_usage": s.EffectUsage, "fairshare": s.FairShare,
			"level_fs": s.LevelFS,
		} {
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				fields[name] = value
			}
		}
		o.add("slurm_fairshare", tags, fields)
	}
	return err
}
