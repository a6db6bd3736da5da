package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// pages gives the manual pages: telegraf-hpc(7), which people wrote, and one in section 8 for each program, of what the
// program says about itself. HTCondor has a condor_q(1): our names begin with telegraf-hpc.
func (p *packager) pages(ctx context.Context, programs []program) ([]file, error) {
	bin, err := p.build(ctx, runtime.GOARCH, programs)
	if err != nil {
		return nil, err
	}
	overview, err := os.ReadFile(filepath.Join(p.repository, "packaging", "man", "telegraf-hpc.7"))
	if err != nil {
		return nil, err
	}
	var others strings.Builder
	var all []file
	for _, one := range programs {
		help, err := exec.CommandContext(ctx, filepath.Join(bin, one.name), "--help").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s --help: %w: %s", one.name, err, help)
		}
		page, err := p.page(one, help)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&others, ".TP\n.BR %s (8)\n%s.\n", roff(one.page()), roff(one.about))
		all = append(all, file{path: "usr/share/man/man8/" + one.page() + ".8.gz", content: compress(page), mode: 0o644})
	}
	overview = []byte(strings.NewReplacer("@DATE@", p.time.Format("2006-01-02"), "@VERSION@", roff(p.version), "@PROGRAMS@\n", others.String()).
		Replace(string(overview)))
	return append(all, file{path: "usr/share/man/man7/telegraf-hpc.7.gz", content: compress(overview), mode: 0o644}), nil
}

// page is the name of the program's manual page.
func (p program) page() string {
	if p.name == helper {
		return helper
	}
	return "telegraf-hpc-" + p.name
}

// page writes a program's manual page (man(7)).
func (p *packager) page(one program, help []byte) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 8 %s \"telegraf-hpc %s\" \"telegraf-hpc\"\n", roff(strings.ToUpper(one.page())), p.time.Format("2006-01-02"), roff(p.version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(one.page()), roff(one.about))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B /%s\n.RI [ option \" ...]\"\n", roff(one.path()))
	if one.plugin == "" {
		verbatim(&b, "DESCRIPTION", help)
		b.WriteString(".SH SEE ALSO\n.BR telegraf\\-hpc (7)\n")
		return b.Bytes(), nil
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\nTelegraf starts this program as its child and stops it. "+
		"By hand it is good for trying a configuration.\n.BR telegraf\\-hpc (7)\ntells how it is switched on.\n")
	verbatim(&b, "OPTIONS", help)
	sample, err := os.ReadFile(filepath.Join(one.plugin, "sample.conf"))
	if err != nil {
		return nil, err
	}
	verbatim(&b, "CONFIGURATION", sample)
	fmt.Fprintf(&b, ".SH FILES\n.TP\n.I /etc/telegraf/%[1]s.conf\nthe configuration\n.TP\n.I /var/lib/telegraf\\-hpc/%[1]s\n"+
		"its state, if it keeps any\n.TP\n.I /%[2]s%[1]s.md\nits measurements, fields, permissions and troubles\n", roff(one.name), roff(docFolder))
	b.WriteString(".SH SEE ALSO\n.BR telegraf\\-hpc (7)\n")
	return b.Bytes(), nil
}

// verbatim writes a section with a text as it is.
func verbatim(b *bytes.Buffer, section string, text []byte) {
	fmt.Fprintf(b, ".SH %s\n.nf\n", section)
	for line := range strings.Lines(string(text)) {
		b.WriteString(roff(strings.ReplaceAll(strings.TrimRight(line, " \n"), "\t", "    ")) + "\n")
	}
	b.WriteString(".fi\n")
}

// roff escapes a text so that it is printed as it is.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`", "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
