package jupyter_users

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsePods(t *testing.T) {
	for _, test := range []struct {
		page string
		pods []pod
		next string
	}{
		{`{"kind":"PodList","items":[]}`, nil, ""},
		{`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":null}`, nil, ""},
		{
			`{"kind":"PartialObjectMetadataList","metadata":{"continue":"eyJ2","remainingItemCount":2},"items":[` +
				`{"metadata":{"name":"a","labels":{"owner":"alice"},"annotations":{"x":"y"}}},` +
				`{"metadata":{"name":"b","labels":{"owner":"bob"},"deletionTimestamp":"2026-11-21T17:00:00Z"}},{"metadata":{}}]}`,
			[]pod{
				{labels: map[string]string{"owner": "alice"}, annotations: map[string]string{"x": "y"}},
				{labels: map[string]string{"owner": "bob"}, leaving: true}, {},
			},
			"eyJ2",
		},
		{
			"\n{\"items\": [{\"spec\": {\"containers\": [{}]}, \"metadata\": {\"labels\": {\"owner\": \"carol\"}}, \"status\": null}],\n\"kind\": \"PodList\"}\n",
			[]pod{{labels: map[string]string{"owner": "carol"}}}, "",
		},
	} {
		t.Run(test.page, func(t *testing.T) {
			var pods []pod
			next, err := parsePods(strings.NewReader(test.page), func(p pod) { pods = append(pods, p) })
			require.NoError(t, err)
			require.Equal(t, test.pods, pods)
			require.Equal(t, test.next, next)
		})
	}
}

func TestParsePodsRefuses(t *testing.T) {
	for page, want := range map[string]string{
		"":                           "ends too early",
		"[]":                         "is no JSON object",
		"null":                       "is no JSON object",
		"<html>":                     "invalid character '<' looking for beginning of value",
		`{"kind":"PodList","items":`: `key "items": ends too early`,
		`{"kind":"PodList","items":[{"metadata":{}},`:                      `key "items": ends too early`,
		`{"kind":"PodList","items":[{"metadata":{"labels"`:                 `key "items": ends too early`,
		`{"kind":"PodList","items":[]`:                                     "ends too early",
		`{"kind":"PodList","items":[]}}`:                                   "invalid character '}' looking for beginning of value",
		`{"kind":"PodList","items":[]}{}`:                                  "has more than one JSON object",
		`{"kind":"PodList","items":{}}`:                                    `key "items": is no list`,
		`{"kind":"PodList","items":[],"items":[]}`:                         `key "items": is there twice`,
		`{"kind":"PodList","metadata":{}}`:                                 "has no items",
		`{"kind":"Status","items":[]}`:                                     `is a "Status", not a list of pods`,
		`{"items":[]}`:                                                     `is a "", not a list of pods`,
		`{"kind":"PodList","items":[{"metadata":{"labels":{"owner":7}}}]}`: `key "items": number is not expected in "metadata.labels"`,
		`{"kind":"PodList","items":[7]}`:                                   `key "items": number is not expected in ""`,
	} {
		t.Run(page, func(t *testing.T) {
			_, err := parsePods(strings.NewReader(page), func(pod) {})
			require.EqualError(t, err, want)
		})
	}
}

func TestParseHubUsers(t *testing.T) {
	for _, test := range []struct {
		page  string
		users []hubUser
		next  int
	}{
		{`{"items":[],"_pagination":{"offset":0,"limit":50,"total":0,"next":null}}`, nil, 0},
		{
			`{"items":[{"kind":"user","name":"alice","servers":{"":{"name":"","ready":true,"pending":null},"gpu":{"pending":"stop"}}},` +
				`{"name":"bob","servers":{}},{"name":"carol"}],"_pagination":{"offset":100,"limit":3,"total":200,` +
				`"next":{"offset":103,"limit":3,"url":"http://other.example.org/hub/api/users?offset=103"}}}`,
			[]hubUser{{name: "alice", known: true, servers: []hubServer{{}, {stopping: true}}}, {name: "bob", known: true}, {name: "carol"}}, 103,
		},
	} {
		t.Run(test.page, func(t *testing.T) {
			var users []hubUser
			next, err := parseHubUsers(strings.NewReader(test.page), func(u hubUser) {
				if len(u.servers) > 1 && u.servers[0].stopping { // They come from a map.
					u.servers[0], u.servers[1] = u.servers[1], u.servers[0]
				}
				users = append(users, u)
			})
			require.NoError(t, err)
			require.Equal(t, test.users, users)
			require.Equal(t, test.next, next)
		})
	}
}

func TestParseHubUsersRefuses(t *testing.T) {
	const page = `,"_pagination":{"offset":0,"next":null}}`
	for text, want := range map[string]string{
		"":                        "ends too early",
		`[{"name":"alice"}]`:      "is no JSON object",
		`{"items":[]}`:            "is not a page of users",
		`{"items":null` + page:    "",
		`{"_pagination":{}}`:      "is not a page of users",
		`{"items":[{}` + page:     `key "items": string is not expected in ""`,
		`{"items":[{},{}]` + page: "2 users have no name: the token needs the scope read:users:name or list:users",
		`{"items":[],"_pagination":{"offset":50,"next":{"offset":50}}}`: "the next page is at 50, and this one at 50",
		`{"items":[],"_pagination":{"offset":50,"next":{"offset":0}}}`:  "the next page is at 0, and this one at 50",
		`{"items":[{"name":"a","servers":[]}]` + page:                   `key "items": array is not expected in "servers"`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := parseHubUsers(strings.NewReader(text), func(hubUser) {})
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, want)
		})
	}
}

func TestFailureText(t *testing.T) {
	for body, want := range map[string]string{
		"": "", "<html>": "", "{}": "", "[]": "",
		`{"kind":"Status","message":"pods is forbidden","reason":"Forbidden","code":403}`: "pods is forbidden",
		`{"status":403,"message":"Forbidden"}`:                                            "Forbidden",
		`{"message":"two\nlines\u001b[31m\u0000"}`:                                        "two lines [31m",
		`{"message":"` + strings.Repeat("é", 200) + `"}`:                                  strings.Repeat("é", 150) + " ...",
		`{"message":"x` + strings.Repeat("é", 200) + `"}`:                                 "x" + strings.Repeat("é", 149) + " ...",
	} {
		require.Equal(t, want, failureText([]byte(body)), body)
	}
}

// FuzzPods compares with what the standard library makes of the whole page.
func FuzzPods(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"PodList","items":[]}`, `{"kind":"PodList","items":[{"metadata":{"labels":{"owner":"a"}}}],"metadata":{"continue":"x"}}`,
		`{"items":null,"kind":"PartialObjectMetadataList"}`, `{"kind":"PodList","items":[{"metadata":{"deletionTimestamp":"x"}},{}]} `,
		`{"kind":"PodList","items":[],"items":[]}`, `{"kind":"PodList","kinD":"x","items":[1]}`, `{"":0}`, `{"kind":"PodList","items":[]}x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		var pods []pod
		next, err := parsePods(strings.NewReader(string(page)), func(p pod) { pods = append(pods, p) })
		if err != nil {
			require.Empty(t, next)
			return
		}
		require.True(t, json.Valid(page))
		var whole map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(page, &whole))
		var items []podItem
		require.NoError(t, json.Unmarshal(whole["items"], &items))
		require.Len(t, pods, len(items))
		for i, item := range items {
			require.Equal(t, item.Metadata.Labels, pods[i].labels)
			require.Equal(t, item.Metadata.DeletionTimestamp != "", pods[i].leaving)
		}
		var meta struct{ Continue string }
		if text := whole["metadata"]; text != nil {
			require.NoError(t, json.Unmarshal(text, &meta))
		}
		require.Equal(t, meta.Continue, next)
	})
}

// FuzzHubUsers requires that each user comes once, and that pages only go on.
func FuzzHubUsers(f *testing.F) {
	for _, seed := range []string{
		`{"items":[],"_pagination":{"offset":0,"next":null}}`, `{"items":[{"name":"a","servers":{"":{"pending":"stop"}}}],"_pagination":{"next":{"offset":2}}}`,
		`{"_pagination":{"offset":-1,"next":{"offset":0}},"items":[{"name":"","servers":null}]}`, `[]`, `{"items":[{"name":null}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		users, servers := 0, 0
		next, err := parseHubUsers(strings.NewReader(string(page)), func(u hubUser) {
			users++
			servers += len(u.servers)
			require.True(t, u.known || len(u.servers) == 0)
		})
		if err != nil {
			require.Zero(t, next)
			return
		}
		require.True(t, json.Valid(page))
		var whole map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(page, &whole))
		var items []struct {
			Servers map[string]json.RawMessage `json:"servers"`
		}
		require.NoError(t, json.Unmarshal(whole["items"], &items))
		require.Len(t, items, users)
		for _, item := range items {
			servers -= len(item.Servers)
		}
		require.Zero(t, servers)
	})
}

// podPage is a page of pods as a real API server sends it, with what fills a pod of a Hub.
func podPage(pods int) string {
	var b strings.Builder
	b.WriteString(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1234"},"items":[`)
	for i := range pods {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"metadata":{"name":"jupyter-user-2d%[1]d","namespace":"coffea-casa","uid":"8f14e45f-ceea-467f-a9c1-%012[1]d","resourceVersion":"%[1]d",`+
			`"creationTimestamp":"2026-11-21T15:00:00Z","labels":{"app":"jupyterhub","component":"singleuser-server","hub.jupyter.org/username":"user-2d%[1]d",`+
			`"jhub_user":"user-2d%[1]d"},"annotations":{"hub.jupyter.org/username":"user-%[1]d"},"managedFields":[{"manager":"OpenAPI-Generator",`+
			`"operation":"Update","apiVersion":"v1","time":"2026-11-21T15:00:00Z","fieldsType":"FieldsV1","fieldsV1":{%[2]s"f:metadata":{}}}]}}`,
			i, strings.Repeat(`"f:spec":{"f:containers":{"k:{\"name\":\"notebook\"}":{".":{},"f:env":{}}}},`, 20))
	}
	b.WriteString("]}")
	return b.String()
}

func BenchmarkParsePods1000(b *testing.B) {
	page := podPage(1000)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		pods := 0
		if _, err := parsePods(strings.NewReader(page), func(pod) { pods++ }); err != nil || pods != 1000 {
			b.Fatal(pods, err)
		}
	}
}

func BenchmarkUserName(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if userName("jose-2dperez-40example-2eorg", "", true) != "jose-perez@example.org" {
			b.Fatal()
		}
	}
}
