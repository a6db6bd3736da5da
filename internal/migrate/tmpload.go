package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// tmpLoad says what it can of a config.json: its keys are told nowhere, so that none may be guessed.
func (m *migration) tmpLoad(s Source) error {
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(s.Text, &settings); err != nil {
		return fmt.Errorf("%s: not a JSON object: %w", s.Name, err)
	}
	var keys []string
	for key := range settings {
		keys = append(keys, fmt.Sprintf("%q", key))
	}
	slices.Sort(keys)
	return fmt.Errorf("%s: what tmp-load's keys mean is not known: %s. slurm_load needs none of it: "+
		"telegraf-hpc config --role head --output graphite=HOST:2003; the name in front of its paths is Slurm's ClusterName, or the option cluster",
		s.Name, strings.Join(keys, ", "))
}
