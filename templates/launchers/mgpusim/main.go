// Runs a bundle of simgen on MGPUSim, a simulator of AMD GPUs.
//
//	runner -mode emu|timing -gpu mi300a|r9nano [-hardware NAME=VALUE,...] [-gpus N] [-timeout SECONDS] [-keep yes|no] BUNDLE RESULTS
//
// It reads workload.json, manifest.json and data.h5 of BUNDLE and the code objects of its kernels,
// and leaves in RESULTS
//
//	outputs.bin   the arena from outputs_offset to its end, after the last launch
//	launches.csv  one line for each launch that ran: time and counts
//	machine.json  which simulator it was, and how many of which GPU
//	waves.csv, groups.csv  what samples of launches show
//	state.bin     what finished steps left; steps that are marked in it before are not run
//	probe.csv     of a probe, the instructions that MGPUSim refused
//
// Nothing in it knows a particular workload, so that one program serves every bundle.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"time"
)

const target = "mgpusim" // name of the folder in the bundle, and of the results

type options struct {
	timing bool
	gpu    gpuModel
	hardware
	changed string // of the hardware
	gpus    int
	seconds float64 // time limit; 0: none
	keep    bool    // what each step leaves
	bundle  string
	results string
}

func main() {
	options := parse()
	defer catchPanics()()
	limitTime(options.seconds)

	b := readBundle(options.bundle)
	if len(b.Workload.Queues) > 0 && options.timing && options.keep {
		fail(exitUsage, "--keep yes: several queues run layers at once, and what one leaves is not to be had "+
			"while others run; leave it out")
	}
	shares := readSharding(b, options.gpus)
	checkMemory(shares.Workload, options)
	samples := readSamples(options, &b.Workload)
	options.hardware = options.hardware.ofWhole(partOf(samples))
	tries := readProbe(b, options.results)
	kernels := loadKernels(b, shares, tries, options)
	findRecent(&b.Workload, kernels, samples)
	data := openData(b)
	if tries != nil {
		options.hardware.alu = tries.guard(options.hardware.alu)
	}
	collecting := debug.SetGCPercent(-1) // all of a machine stays, but for a few tables that are made anew
	m := newMachine(options, shares.Workload.ArenaNbytes)
	debug.SetGCPercent(collecting)
	if tries != nil {
		tries.code = func(k *kernel) uint64 { return uint64(m.gpus[0].code[k]) }
	}
	version := moduleVersion("github.com/sarchlab/mgpusim/v4")
	facts{version, modeName(options.timing), options.gpu.name, options.gpus, options.changed}.leave(options.results)

	m.upload(b.Workload, shares, data)
	kept := openState(filepath.Join(options.results, "state.bin"), b, shares, options.keep)
	m.restore(&b.Workload, shares, kept)
	rows := newTable(filepath.Join(options.results, "launches.csv"), shares, options.timing,
		len(b.Workload.Queues) > 0)
	plan := m.plan(shares, kept, kernels, samples)
	say("allocations", strconv.Itoa(m.allocations))
	if len(b.Workload.Queues) > 0 && options.timing && options.gpus == 1 {
		for _, found := range m.runQueues(&b.Workload, plan) {
			rows.add(found)
		}
		plan = nil
	}
	for at, step := range b.Workload.Steps {
		if plan != nil && toDo(kept.marks[at]) {
			rows.add(m.step(step, shares.Workload.Steps[at], plan[at]))
			m.leave(&b.Workload, shares, kept, at, data)
		}
	}
	m.download(b.Workload, shares, data, filepath.Join(options.results, "outputs.bin"))
}

// task is what a step has to do: rounds of dispatches, one round after the other.
type task struct {
	launches  [][]*dispatch // a round for each launch of the share
	reduction [][]*dispatch
	reduced   float64       // bytes that it adds up on each GPU
	after     [][]*dispatch // what each GPU does with these
}

// plan prepares all steps that are to be run.
func (m *machine) plan(s *sharding, kept *state, kernels map[string]*kernel, samples map[int]*sample) []task {
	plan := make([]task, len(s.Workload.Steps))
	count := 0 // of launches before
	var all []*dispatch
	for at, share := range s.Workload.Steps {
		first := count
		count += len(share.Launches)
		if !toDo(kept.marks[at]) {
			continue
		}
		for i, launch := range share.Launches {
			round := m.dispatches(s.Workload, launch, kernels[launch.Kernel])
			round[0].sample = samples[first+i]
			plan[at].launches = append(plan[at].launches, round)
		}
		plan[at].reduction = m.reduction(s, at, kernels)
		for _, r := range s.Reductions[at] {
			plan[at].reduced += float64(s.Workload.buffer(r.Result).nbytes())
		}
		for _, launch := range s.after(at) {
			plan[at].after = append(plan[at].after, m.dispatches(s.Workload, launch, kernels[launch.Kernel]))
		}
		for _, round := range slices.Concat(plan[at].launches, plan[at].reduction, plan[at].after) {
			all = append(all, round...)
		}
	}
	m.prepare(all)
	return plan
}

// step runs a step on all GPUs and returns a row for each launch of it in the whole workload. A
// share may have more launches or fewer; those without a counterpart count with the last one.
func (m *machine) step(whole, share step, todo task) []row {
	rows := make([]row, len(whole.Launches))
	for i, launch := range whole.Launches {
		rows[i].kernel = launch.Kernel
	}
	last := len(rows) - 1
	for i, round := range todo.launches {
		rows[min(i, last)].add(m.run(share, round))
	}
	if len(todo.reduction) > 0 {
		rows[last].reduction = &row{reduced: todo.reduced, gpus: len(m.gpus)}
		for _, round := range todo.reduction {
			rows[last].reduction.add(m.run(share, round))
		}
	}
	for _, round := range todo.after {
		rows[last].add(m.run(share, round))
	}
	return rows
}

func parse() options {
	mode := flag.String("mode", "emu", "emu or timing")
	gpu := flag.String("gpu", "mi300a", "mi300a or r9nano")
	changed := flag.String("hardware", "", "what differs from the model: NAME=VALUE,...")
	gpus := flag.Int("gpus", 1, "how many of them share the batch")
	seconds := flag.Float64("timeout", 0, "end the run after this many seconds; 0: never")
	keep := flag.String("keep", "", "yes: keep what each step leaves; no; or as the mode has it")
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
	if *keep != "" && *keep != "yes" && *keep != "no" {
		fail(exitUsage, "SIMGEN_KEEP is %q; known: yes, no", *keep)
	}
	if *gpus < 1 || *gpus > mostGPUs {
		fail(exitUsage, "SIMGEN_GPUS is %d; write 1 to %d", *gpus, mostGPUs)
	}
	// The driver writes the caches back and empties them before it copies from the GPU: with the
	// timing model, the next layer would miss where it had hit.
	timing := *mode == "timing"
	keeps := *keep == "yes" || *keep == "" && !timing
	return options{timing, model, newHardware(*gpu, *changed), *changed, *gpus, *seconds, keeps, flag.Arg(0), flag.Arg(1)}
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
