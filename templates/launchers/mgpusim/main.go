// Runs a bundle of simgen on MGPUSim, a simulator of AMD GPUs.
//
//	runner -mode emu|timing -gpu mi300a|r9nano [-timeout SECONDS] BUNDLE RESULTS
//
// It reads workload.json, manifest.json and data.h5 of BUNDLE and the code objects of its kernels,
// and leaves in RESULTS
//
//	outputs.bin   the arena from outputs_offset to its end, after the last launch
//	launches.csv  one line for each launch: time and counts
//
// Nothing in it knows a particular workload, so that one program serves every bundle.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

const target = "mgpusim" // name of the folder in the bundle, and of the results

type options struct {
	timing  bool
	gpu     gpuModel
	seconds float64 // time limit; 0: none
	bundle  string
	results string
}

func main() {
	options := parse()
	catchPanics()
	limitTime(options.seconds)

	b := readBundle(options.bundle)
	checkMemory(b.Workload)
	kernels := loadKernels(b, options)
	data := openData(b)
	m := newMachine(options, b.Workload.ArenaNbytes)
	say("mgpusim_version", moduleVersion("github.com/sarchlab/mgpusim/v4"))
	say("mode", modeName(options.timing))
	say("gpu", options.gpu.name)

	m.upload(b.Workload, data)
	rows := make([]row, 0, len(b.Workload.Steps))
	for _, step := range b.Workload.Steps {
		for _, launch := range step.Launches {
			rows = append(rows, m.launch(b.Workload, step, launch, kernels[launch.Kernel]))
		}
	}
	m.download(b.Workload, filepath.Join(options.results, "outputs.bin"))
	writeCSV(filepath.Join(options.results, "launches.csv"), rows, options.timing)
}

func parse() options {
	mode := flag.String("mode", "emu", "emu or timing")
	gpu := flag.String("gpu", "mi300a", "mi300a or r9nano")
	seconds := flag.Float64("timeout", 0, "end the run after this many seconds; 0: never")
	flag.Parse()
	if flag.NArg() != 2 {
		fail(exitUsage, "runner: wrong arguments; call it through run.sh")
	}
	if *mode != "emu" && *mode != "timing" {
		fail(exitUsage, "SIMGEN_MODE is %q; known: emu, timing", *mode)
	}
	model, known := gpuModels[*gpu]
	if !known {
		fail(exitUsage, "SIMGEN_GPU is %q; known: mi300a, r9nano", *gpu)
	}
	return options{*mode == "timing", model, *seconds, flag.Arg(0), flag.Arg(1)}
}

func modeName(timing bool) string {
	if timing {
		return "timing"
	}
	return "emu"
}

// say leaves a fact about the run in the log, for provenance.
func say(name, value string) {
	fmt.Fprintf(os.Stdout, "simgen: %s: %s\n", name, value)
}

// moduleVersion tells which version of a module this program was built with.
func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			if module.Replace != nil {
				return module.Version + " replaced by " + module.Replace.Path
			}
			return module.Version
		}
	}
	return "unknown"
}

func limitTime(seconds float64) {
	if seconds > 0 {
		time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() {
			fail(exitTimeout, "%sthe run took longer than %g s; give it more with --timeout, "+
				"or make the workload smaller with --set", running.place(), seconds)
		})
	}
}
