package jupyter_users

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// replay stands in for an API server: it gives the answers that a real one gave to the same requests. A file has a request
// and its answer; those with the same request answer it in turn, and the last one again and again. What is in broken comes
// in place of the answers, by namespace.
type replay struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string][]string
	broken  map[string]http.HandlerFunc
	unknown []string // requests that were not recorded
}

func newReplay(t testing.TB, pattern string) *replay {
	t.Helper()
	r := &replay{answers: make(map[string][]string), broken: make(map[string]http.HandlerFunc)}
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, pattern)
	for _, path := range files {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		_, answer, ok := strings.Cut(string(content), "\n\n")
		require.True(t, ok, path)
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(content))))
		require.NoError(t, err, path)
		key := requestKey(request)
		r.answers[key] = append(r.answers[key], answer)
	}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

func requestKey(r *http.Request) string {
	return strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Accept"), r.Header.Get("Authorization")}, "\n")
}

func (r *replay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	key := requestKey(request)
	r.mu.Lock()
	broken := r.broken[strings.Split(request.URL.Path, "/")[4]]
	answers := r.answers[key]
	if len(answers) > 1 {
		r.answers[key] = answers[1:]
	}
	if len(answers) == 0 {
		r.unknown = append(r.unknown, key)
	}
	r.mu.Unlock()
	if broken != nil {
		broken(w, request)
		return
	}
	if len(answers) == 0 {
		http.Error(w, `{"message":"this was not recorded"}`, http.StatusTeapot)
		return
	}
	answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answers[0])), request)
	if err != nil {
		panic(err) // A file is wrong.
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // The client may have gone.
}

// breakDown puts something in place of a namespace's answers; nil puts them back.
func (r *replay) breakDown(namespace string, do http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken[namespace] = do
}
