package condor_q

import "telegraf-hpc/internal/statefile"

// stateVersion is the version of the state's format.
const stateVersion = 1

// stateContent is the state of a schedd as it is on disk: the cursor of its history.
type stateContent struct {
	Version int `json:"version"`
	cursor
}

// openState opens the state of a schedd. Where there is none, the cursor is zero. With a *statefile.DamagedError the state
// is open, too.
func openState(folder, pool, schedd string) (statefile.File, cursor, error) {
	if folder == "" {
		return statefile.File{}, cursor{}, nil
	}
	file, content, err := statefile.Open[stateContent](folder, "schedd-"+pool+"-"+schedd, stateVersion)
	return file, content.cursor, err
}

// save writes how far the history was read.
func (s *schedd) save() error { return s.state.Save(stateContent{stateVersion, s.cursor}) }
