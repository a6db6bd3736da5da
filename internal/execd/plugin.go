package execd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/plugins/inputs"
	"github.com/influxdata/telegraf/plugins/outputs"
	"github.com/influxdata/telegraf/plugins/processors"
)

// The kinds of plugin, as their tables are called in a configuration.
const (
	kindInput     = "inputs"
	kindProcessor = "processors"
	kindOutput    = "outputs"
)

// plugin is the one plugin that is built into the program.
type plugin struct {
	kind string
	name string
	make func() telegraf.PluginDescriber
}

func (p plugin) String() string {
	return p.kind + "." + p.name
}

// registered gives the one plugin that the program's blank imports have put into Telegraf's registries.
func registered() (plugin, error) {
	var found []plugin
	for name, creator := range inputs.Inputs {
		found = append(found, plugin{kindInput, name, func() telegraf.PluginDescriber { return creator() }})
	}
	for name, creator := range processors.Processors {
		found = append(found, plugin{kindProcessor, name, func() telegraf.PluginDescriber { return creator() }})
	}
	for name, creator := range outputs.Outputs {
		found = append(found, plugin{kindOutput, name, func() telegraf.PluginDescriber { return creator() }})
	}
	if len(found) == 1 {
		return found[0], nil
	}
	names := make([]string, 0, len(found))
	for _, p := range found {
		names = append(names, p.String())
	}
	slices.Sort(names)
	return plugin{}, fmt.Errorf("%d plugins are built in, not one: [%s]", len(found), strings.Join(names, " "))
}
