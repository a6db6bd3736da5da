// Package said lets a plugin tell each cause of trouble once, and not once a gather.
package said

import "sync"

// Said remembers what was said last of each subject. The zero Said has said nothing.
type Said struct {
	mu    sync.Mutex
	texts map[string]string
}

// First tells whether text is not what was said last of this subject, and remembers it.
func (s *Said) First(subject, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.texts[subject]; ok && last == text {
		return false
	}
	if s.texts == nil {
		s.texts = make(map[string]string)
	}
	s.texts[subject] = text
	return true
}

// Fail hands on an error, unless it is what was said last of this subject.
func (s *Said) Fail(acc interface{ AddError(err error) }, subject string, err error) {
	if s.First(subject, err.Error()) {
		acc.AddError(err)
	}
}

// Mend forgets a subject that is well again, and tells whether something was said of it.
func (s *Said) Mend(subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.texts[subject]
	delete(s.texts, subject)
	return ok
}
