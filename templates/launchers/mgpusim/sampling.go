// A sample of a launch: of its work-groups only some run, which run.json in the folder of the results
// says (simgen/workload/samples.py). What is seen of them goes to two tables there: waves.csv has the
// time and all counts whenever as many groups have started as the GPU holds at once; groups.csv each
// group's time and own counts.

package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/tracing"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
	"github.com/sarchlab/mgpusim/v4/amd/protocol"
)

// sample is the part of a launch that runs.
type sample struct {
	Launch int      // index in the workload
	Wave   int      // work-groups that the GPU holds at once
	Ranges [][2]int // the first work-group and how many; in order, x fastest

	// On a part of the machine: 8 is an eighth; what L2 and its TLB hold when the launch begins, as
	// places in the arena (offset, bytes), least recently used first; and whether its code is there.
	Part        int
	Warm, Pages [][2]uint64
	Code        bool
	recent      bool // whether the code is in caches of instructions, too
}

// partOf is the part of the machine that all samples run on: 8 is an eighth.
func partOf(samples map[int]*sample) int {
	part := 1
	for _, s := range samples {
		part = max(part, s.Part)
	}
	return part
}

// readSamples returns those of a run, by launch; none where all work-groups run.
func readSamples(o options, w *workload) map[int]*sample {
	raw, err := os.ReadFile(filepath.Join(o.results, "run.json"))
	if os.IsNotExist(err) {
		return nil
	}
	var run struct{ Samples []sample }
	if err != nil || json.Unmarshal(raw, &run) != nil {
		fail(exitDamaged, "run.json: cannot be read; run it again")
	}
	var launches []launch
	for _, s := range w.Steps {
		launches = append(launches, s.Launches...)
	}
	found := map[int]*sample{}
	for i := range run.Samples {
		s := &run.Samples[i]
		if s.Launch < 0 || s.Launch >= len(launches) || !s.fits(int(launches[s.Launch].groups())) {
			fail(exitDamaged, "run.json: a sample of work-groups that are not there; run it again")
		}
		for _, place := range slices.Concat(s.Warm, s.Pages) {
			if place[0] > w.ArenaNbytes || place[1] > w.ArenaNbytes-place[0] {
				fail(exitDamaged, "run.json: a sample of memory that is not there; run it again")
			}
		}
		found[s.Launch] = s
	}
	if len(found) > 0 && (!o.timing || o.gpus > 1) {
		fail(exitUsage, "runner: samples are timed, on one GPU; call it through simgen run")
	}
	return found
}

// fits tells whether the ranges follow each other in a grid of so many work-groups.
func (s *sample) fits(groups int) bool {
	at := 0
	for _, r := range s.Ranges {
		if r[0] < at || r[1] < 1 || r[1] > groups-r[0] {
			return false
		}
		at = r[0] + r[1]
	}
	return s.Wave > 0 && at > 0
}

// groups is how many there are.
func (s *sample) groups() uint64 {
	count := 0
	for _, r := range s.Ranges {
		count += r[1]
	}
	return uint64(count)
}

// has tells whether a work-group is in it.
func (s *sample) has(group int) bool {
	at, exact := slices.BinarySearchFunc(s.Ranges, group, func(r [2]int, g int) int { return r[0] - g })
	return exact || at > 0 && group < s.Ranges[at-1][0]+s.Ranges[at-1][1]
}

// groupNumber is the place of a work-group in the grid of its launch, x fastest.
func groupNumber(packet *kernels.HsaKernelDispatchPacket, group *kernels.WorkGroup) int {
	x := int(packet.GridSizeX) / int(packet.WorkgroupSizeX)
	return (group.IDZ*int(packet.GridSizeY)+group.IDY)*x + group.IDX
}

// sampler tells the dispatchers which groups there are of a launch. The driver asks for whole grids;
// what it sends is changed on the way.
type sampler struct {
	samples map[*kernels.HsaKernelDispatchPacket]*sample
}

// Func is called when the driver sends a message.
func (s *sampler) Func(context sim.HookCtx) {
	request, ok := context.Item.(*protocol.LaunchKernelReq)
	if !ok || context.Pos != sim.HookPosPortMsgSend {
		return
	}
	if of := s.samples[request.Packet]; of != nil {
		request.WGFilter = func(packet *kernels.HsaKernelDispatchPacket, group *kernels.WorkGroup) bool {
			return of.has(groupNumber(packet, group))
		}
	}
}

// seen is what a launch's sample has shown so far.
type seen struct {
	*sample
	groups []*seenGroup // in the order in which they began
	of     map[*kernels.WorkGroup]*seenGroup
	tasks  map[string]*seenGroup
	waves  []seenWave
}

type seenGroup struct {
	number     int
	begin, end sim.VTimeInSec
	counts     [emulated]uint64
}

// seenWave is the state of all counts when so many groups had begun, or all had ended.
type seenWave struct {
	groups  int
	seconds float64
	counts  [metrics]uint64
}

func newSeen(s *sample) *seen {
	return &seen{sample: s, of: map[*kernels.WorkGroup]*seenGroup{}, tasks: map[string]*seenGroup{}}
}

// groupTracer sees work-groups begin and end.
type groupTracer struct {
	ignore
	*recorder
}

func (t *groupTracer) StartTask(task tracing.Task) {
	request, ok := task.Detail.(*protocol.MapWGReq)
	if !ok || t.seen == nil {
		return
	}
	if len(t.seen.groups)%t.seen.Wave == 0 {
		t.snapshot()
	}
	group := &seenGroup{number: groupNumber(request.WorkGroup.Packet, request.WorkGroup), begin: t.engine.CurrentTime()}
	t.seen.groups = append(t.seen.groups, group)
	t.seen.of[request.WorkGroup], t.seen.tasks[task.ID] = group, group
}

func (t *groupTracer) EndTask(task tracing.Task) {
	if t.seen == nil {
		return
	}
	if group := t.seen.tasks[task.ID]; group != nil {
		group.end = t.engine.CurrentTime()
		delete(t.seen.tasks, task.ID)
	}
}

// snapshot notes all counts as they are now.
func (r *recorder) snapshot() {
	now := r.engine.CurrentTime()
	if len(r.active) == 0 {
		now = r.end
	}
	before := r.tally
	r.countCycles(r.cycles(now - r.begin))
	r.counts[workGroups] = uint64(len(r.seen.groups))
	r.seen.waves = append(r.seen.waves, seenWave{len(r.seen.groups), float64(now - r.begin), r.counts})
	r.tally = before
}

// countFor counts an instruction for the group that executes it.
func (s *seen) countFor(group *kernels.WorkGroup, before, after *[metrics]uint64) {
	if of := s.of[group]; of != nil {
		for i := range of.counts {
			of.counts[i] += after[i] - before[i]
		}
	}
}

// observations are the tables of what samples show.
type observations struct {
	results       string
	waves, groups *csv.Writer
}

func (o *observations) open(name string, head []string) *csv.Writer {
	file, err := os.Create(filepath.Join(o.results, name))
	if err != nil {
		fail(exitNoOutput, "%s: cannot be made (%v); check the folder and its permissions", name, reason(err))
	}
	made := csv.NewWriter(file)
	_ = made.Write(head)
	return made
}

func (o *observations) add(s *seen, begin sim.VTimeInSec) {
	if o.waves == nil {
		o.waves = o.open("waves.csv", append([]string{"launch", "groups", "seconds"}, metricNames[:]...))
		o.groups = o.open("groups.csv", append([]string{"launch", "group", "begin", "end"}, metricNames[:emulated]...))
	}
	launch := strconv.Itoa(s.Launch)
	for _, w := range s.waves {
		_ = o.waves.Write(append([]string{launch, strconv.Itoa(w.groups), real(w.seconds)}, whole(w.counts[:])...))
	}
	for _, g := range s.groups {
		line := []string{launch, strconv.Itoa(g.number), real(float64(g.begin - begin)), real(float64(g.end - begin))}
		_ = o.groups.Write(append(line, whole(g.counts[:])...))
	}
	for _, each := range []*csv.Writer{o.waves, o.groups} {
		if each.Flush(); each.Error() != nil {
			fail(exitNoOutput, "waves.csv: cannot be written (%v); check the space on the disk", reason(each.Error()))
		}
	}
}

func whole(counts []uint64) []string {
	cells := make([]string, len(counts))
	for i, count := range counts {
		cells[i] = strconv.FormatUint(count, 10)
	}
	return cells
}
