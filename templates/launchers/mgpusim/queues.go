// Several queues: steps that do not depend on each other run at once (simgen/workload/queues.py).

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
)

const mostQueues = 8 // kernels that MGPUSim's command processor runs at once

// queued is where a step runs, and which steps of other queues end before it begins.
type queued struct {
	Queue int
	After []int
}

// tally is what is counted of a launch while others run.
type tally struct {
	counts     [metrics]uint64
	times      [spans]sim.VTimeInSec
	begin, end sim.VTimeInSec
}

// started is a launch of a step.
type started struct {
	*dispatch
	step  int
	tally tally
}

// turns starts launches as soon as they may, and hears that they have ended. Once it has begun, the
// simulator calls it within its own time: so a run takes the same time whatever this machine does.
type turns struct {
	machine *machine
	steps   []step
	queues  []queued // of each step
	lines   []*line
	left    []int               // launches of each step that have not ended
	running map[string]*started // by the ID of the command
}

// line is one of the queues: launches that are not started yet, in order.
type line struct {
	queue   *driver.CommandQueue
	waiting []*started
	busy    bool
}

// runQueues runs all that is planned and returns the rows of each step.
func (m *machine) runQueues(w *workload, plan []task) [][]row {
	rows := make([][]row, len(w.Steps))
	for _, part := range epochs(w, plan) {
		m.refresh()
		m.stale, m.unwritten = true, true
		m.runEpoch(w, part, rows)
	}
	return rows
}

// runEpoch runs a part of what is planned and adds the rows of each step.
func (m *machine) runEpoch(w *workload, plan []task, rows [][]row) {
	t := &turns{machine: m, steps: w.Steps, queues: w.Queues, left: make([]int, len(w.Steps)),
		running: map[string]*started{}}
	all := []*started{}
	for at, todo := range plan {
		for len(t.lines) <= w.Queues[at].Queue {
			t.lines = append(t.lines, m.line(len(t.lines)))
		}
		l := t.lines[w.Queues[at].Queue]
		for _, round := range todo.launches {
			s := &started{dispatch: round[0], step: at}
			l.waiting, all = append(l.waiting, s), append(all, s)
			t.left[at]++
		}
	}
	m.recorder.reset()
	m.recorder.watch(all, t.ended)
	defer m.recorder.unwatch()
	since := time.Now()
	t.start()
	m.runUntil(func() bool { return m.recorder.ended.Load() < int32(len(all)) })
	running = current{}
	fmt.Printf("%d launches in %d queues: %.3f s\n", len(all), len(t.lines), time.Since(since).Seconds())
	elapsed := elapsed(all)
	for i, s := range all {
		rows[s.step] = append(rows[s.step], m.recorder.rowOf(s, elapsed[i]))
	}
}

// line is the queue of this number, empty.
func (m *machine) line(number int) *line {
	for len(m.queues) <= number {
		m.queues = append(m.queues, m.driver.CreateCommandQueue(m.context))
	}
	return &line{queue: m.queues[number]}
}

// start gives each queue that is idle its next launch, if that may run.
func (t *turns) start() {
	for _, l := range t.lines {
		if l.busy || len(l.waiting) == 0 || !t.may(l.waiting[0].step) {
			continue
		}
		s := l.waiting[0]
		l.waiting, l.busy = l.waiting[1:], true
		t.running[s.command.ID] = s
		running = current{s.kernel, t.steps[s.step], t.machine.recorder.suspect}
		t.machine.driver.Enqueue(l.queue, s.command)
	}
}

func (t *turns) may(step int) bool {
	return !slices.ContainsFunc(t.queues[step].After, func(before int) bool { return t.left[before] > 0 })
}

// ended hears that a command has ended.
func (t *turns) ended(id string) {
	s := t.running[id]
	delete(t.running, id)
	t.left[s.step]--
	t.lines[t.queues[s.step].Queue].busy = false
	t.start()
}

// elapsed tells by how much each launch ended after all that had ended before: the sum is the time
// from the first start to the last end.
func elapsed(all []*started) []float64 {
	last := all[0].tally.begin
	order := make([]int, len(all))
	for i, s := range all {
		order[i], last = i, min(last, s.tally.begin)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].tally.end, all[b].tally.end) })
	found := make([]float64, len(all))
	for _, i := range order {
		found[i], last = float64(all[i].tally.end-last), all[i].tally.end
	}
	return found
}

// watched is what the recorder counts for launches that run at once.
type watched struct {
	byPacket  map[*kernels.HsaKernelDispatchPacket]*tally
	byCommand map[string]*tally
	ended     func(command string)
}

// watch counts for each of these launches by itself.
func (r *recorder) watch(all []*started, ended func(string)) {
	r.watched = &watched{map[*kernels.HsaKernelDispatchPacket]*tally{}, map[string]*tally{}, ended}
	for _, s := range all {
		r.watched.byPacket[s.command.Packet] = &s.tally
		r.watched.byCommand[s.command.ID] = &s.tally
	}
}

func (r *recorder) unwatch() { r.watched = nil }

// of is where what a wavefront does is counted.
func (r *recorder) of(packet *kernels.HsaKernelDispatchPacket) *tally {
	if r.watched == nil {
		return &r.tally
	}
	return r.watched.byPacket[packet]
}

// rowOf is the row of a launch beside which others ran: what caches, the DRAM and units did is not
// told, because they do not know for whom.
func (r *recorder) rowOf(s *started, elapsed float64) row {
	t := &s.tally
	t.counts[workGroups] = uint64(s.grid[0]) * uint64(s.grid[1]) * uint64(s.grid[2])
	seconds := float64(t.end - t.begin)
	cycles := r.cycles(t.end - t.begin)
	r.countWaits(t)
	return row{kernel: s.kernel.name, launches: 1, seconds: seconds, cycles: float64(cycles),
		counts: t.counts, elapsed: elapsed}
}

// shared are counts of what all launches have together that run at once.
func shared(m metric) bool { return m >= l1Hits && m <= wavefrontSlotCycles }
