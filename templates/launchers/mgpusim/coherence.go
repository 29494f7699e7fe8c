// What a kernel reads that another one wrote: caches that still hold what was there before.

package main

import (
	"slices"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cp"
)

// refresh empties the first-level caches of data, as GPUs do when a kernel begins (the acquire fence
// of its AQL packet; HSA Platform System Architecture Specification 1.2, 2.9.1). MGPUSim 4.2.0 does
// not: a compute unit that once read a line goes on reading it, whatever a later kernel wrote there
// from another unit. Its driver has the caches emptied before it copies from a GPU, but all of them;
// so it copies a word here while the command processors know of no others. Simulated time passes, but
// no kernel's.
func (m *machine) refresh() {
	if !m.timing || !m.stale {
		return
	}
	m.stale = false
	var others [][2][]sim.Port
	for _, each := range m.processors {
		others = append(others, [2][]sim.Port{each.L1ICaches, each.L2Caches})
		each.L1ICaches, each.L2Caches = nil, nil
	}
	m.copyBack(&m.gpus[0], make([]byte, 4), m.gpus[0].arena)
	for i, each := range m.processors {
		each.L1ICaches, each.L2Caches = others[i][0], others[i][1]
	}
}

// commandProcessors finds those of all GPUs; the emulator's are others, and it has no caches.
func (m *machine) commandProcessors() []*cp.CommandProcessor {
	var found []*cp.CommandProcessor
	for _, component := range m.simulation.Components() {
		if each, ok := component.(*cp.CommandProcessor); ok {
			found = append(found, each)
		}
	}
	return found
}

// epochs cuts what several queues run into parts that need no refresh within: no launch of a part
// reads what was written after a launch of the part had read there.
func epochs(w *workload, plan []task) [][]task {
	var found [][]task
	part, some := make([]task, len(plan)), false
	var read, stale extents
	cut := func() {
		if some {
			found = append(found, part)
		}
		part, some = make([]task, len(plan)), false
		read, stale = nil, nil
	}
	for at, todo := range plan {
		if len(todo.launches) == 0 {
			continue
		}
		use := w.use(&w.Steps[at])
		if stale.meet(use.reads) || read.meet(use.scratch) || use.rereads {
			cut()
		}
		if use.rereads { // one launch after the other
			for _, round := range todo.launches {
				part[at], some = task{launches: [][]*dispatch{round}}, true
				cut()
			}
			continue
		}
		part[at], some = todo, true
		for _, each := range slices.Concat(use.writes, use.scratch) {
			if read.meet(extents{each}) || use.reads.meet(extents{each}) {
				stale = append(stale, each)
			}
		}
		read = slices.Concat(read, use.reads, use.scratch)
	}
	cut()
	return found
}

// extents are parts of the arena: where each begins and ends, in bytes.
type extents [][2]uint64

func (e extents) meet(others extents) bool {
	return slices.ContainsFunc(e, func(a [2]uint64) bool {
		return slices.ContainsFunc(others, func(b [2]uint64) bool { return a[0] < b[1] && b[0] < a[1] })
	})
}

// use is what a step does with memory.
type use struct {
	reads, writes, scratch extents
	rereads                bool // whether a launch of its own may read what one wrote over what one read
}

// use tells it from names: a launch may read and write whatever it has an address of, but for the
// tensors that the step reads or writes.
func (w *workload) use(s *step) use {
	var u use
	reads, writes, launches := map[string]bool{}, map[string]bool{}, map[string]int{}
	for _, each := range s.Reads {
		reads[each[1]] = true
	}
	for _, each := range s.Writes {
		writes[each[1]] = true
	}
	for _, l := range s.Launches {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(l.Args))) {
			launches[name]++
		}
	}
	for name, count := range launches {
		b := w.buffer(name)
		place := [2]uint64{b.Offset, b.Offset + inLines(b.nbytes())}
		switch {
		case reads[name] || writes[name]:
			if reads[name] {
				u.reads = append(u.reads, place)
			}
			if writes[name] {
				u.writes = append(u.writes, place)
			}
		default:
			u.scratch = append(u.scratch, place)
		}
		u.rereads = u.rereads || count > 2 && (!reads[name] || writes[name]) ||
			count > 1 && reads[name] && writes[name]
	}
	return u
}
