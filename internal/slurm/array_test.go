package slurm

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountTasks(t *testing.T) {
	for text, want := range map[string]int64{
		"5": 1, "3-9": 7, "3-9%3": 7, "1,3,7-9": 5, "1-500": 500, "0-1000:5%7": 201, "1-10:3": 4, "7-7": 1, "100-200:10": 11,
		"1,3,7-9,100,110,120,130,140,150,160,170,180,190,200%2": 16, "0-4000000": 4000001, "5%1": 1, "1-10:100": 1,
	} {
		got, err := countTasks([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                       `"": no number of a task`,
		"1,":                     `"1,": no number of a task`,
		",1":                     `",1": no number of a task`,
		"1,,2":                   `"1,,2": no number of a task`,
		"1-":                     `"1-": no number of a task`,
		"-5":                     `"-5": no number of a task`,
		"9-3":                    `"9-3": no range of tasks`,
		"1-9:0":                  `"1-9:0": no range of tasks`,
		"1-9:":                   `"1-9:": no number of a task`,
		"1:2":                    `"1:2": no list of tasks`,
		"1 2":                    `"1 2": no list of tasks`,
		"1,3,...":                `"1,3,...": no number of a task`,
		"1-9%":                   `limit of "1-9%": "" is no number`,
		"1-9%x":                  `limit of "1-9%x": "x" is no number`,
		"%5":                     `"%5": no number of a task`,
		"4294967296":             `"4294967296": no number of a task`,
		"0-99999999999999999999": `"0-99999999999999999999": no number of a task`,
	} {
		_, err := countTasks([]byte(text))
		require.EqualError(t, err, want, text)
	}
}

// Tasks are as many as there are when each is written out.
func FuzzArrayTasks(f *testing.F) {
	for _, seed := range []string{"1,3,7-9,100-200:10%2", "0", "1-500%50", "5-1", "1-9:0", "1,,2", "1-3:1:1", "%", "1-2-3"} {
		f.Add(seed)
	}
	grammar := regexp.MustCompile(`^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := countTasks([]byte(text))
		if !grammar.MatchString(text) {
			require.Error(t, err)
			return
		}
		list, limit, _ := strings.Cut(text, "%")
		if _, parseErr := strconv.ParseInt(limit, 10, 64); limit != "" && parseErr != nil {
			require.Error(t, err)
			return
		}
		want := int64(0)
		for item := range strings.SplitSeq(list, ",") {
			numbers := regexp.MustCompile(`\d+`).FindAllString(item, -1)
			var v [3]int64
			v[2] = 1
			for i, number := range numbers {
				if v[i], err = strconv.ParseInt(number, 10, 64); err != nil || v[i] >= maxTask {
					_, err := countTasks([]byte(text))
					require.Error(t, err)
					return
				}
			}
			if len(numbers) == 1 {
				v[1] = v[0]
			}
			if v[1] < v[0] || v[2] == 0 {
				_, err := countTasks([]byte(text))
				require.Error(t, err)
				return
			}
			if v[1]-v[0] > 1e6 {
				t.Skip("too many to write out")
			}
			for task := v[0]; task <= v[1]; task += v[2] {
				want++
			}
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
