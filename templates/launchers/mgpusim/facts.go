package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// facts tell which simulator runs the bundle, and on what; those who read the results need them.
type facts struct {
	Version string `json:"mgpusim_version"`
	Mode    string `json:"mode"`
	GPU     string `json:"gpu"`
	GPUs    int    `json:"gpus"` // that share the batch
	// What differs from the GPU's model: NAME=VALUE,...
	Hardware string `json:"hardware,omitempty"`
}

// leave writes the facts to machine.json, and for people into the log.
func (f facts) leave(results string) {
	fmt.Fprintf(os.Stdout, "simgen: MGPUSim %s, %s, %d x %s\n", f.Version, f.Mode, f.GPUs, f.GPU)
	text, _ := json.Marshal(f)
	if err := os.WriteFile(filepath.Join(results, "machine.json"), append(text, '\n'), 0o666); err != nil {
		fail(exitNoOutput, "machine.json: cannot be written (%v); check the space on the disk", reason(err))
	}
}
