// Parts of the timing model's components that do as Akita's do, in less time of the machine that simulates
// them: pipelines, and sets of TLBs.

package main

import (
	"math/bits"
	"reflect"
	"unsafe"

	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/mem/vm/tlb"
	"github.com/sarchlab/akita/v4/pipelining"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/akita/v4/tracing"
)

// quicken puts these parts into all components. Nothing may be on its way.
func quicken(s *simulation.Simulation) {
	for _, component := range s.Components() {
		whole := reflect.ValueOf(component).Elem()
		exchange(whole, whole.Type().PkgPath(), map[uintptr]bool{})
		if each, ok := component.(*tlb.Comp); ok {
			sets := inside(each, "sets")
			for i := range sets.Len() {
				sets.Index(i).Set(reflect.ValueOf(newPageSet(int(inside(each, "numWays").Int()))))
			}
		}
	}
}

var pipelineType = reflect.TypeFor[pipelining.Pipeline]()

// exchange exchanges the pipelines of what its component's package has made.
func exchange(value reflect.Value, of string, seen map[uintptr]bool) {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if value.Kind() == reflect.Pointer && (value.IsNil() || seen[value.Pointer()]) {
			return
		}
		if value.Kind() == reflect.Pointer {
			seen[value.Pointer()] = true
		}
		if inner := value.Elem(); inner.IsValid() {
			exchange(inner, of, seen)
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			exchange(value.Index(i), of, seen)
		}
	case reflect.Struct:
		if value.Type().PkgPath() != of {
			return
		}
		for i := range value.NumField() {
			field := value.Field(i)
			if field.Type() != pipelineType {
				exchange(field, of, seen)
			} else if !field.IsNil() && field.CanAddr() {
				place := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
				if made := newPipeline(place.Interface().(pipelining.Pipeline)); made != nil {
					place.Set(reflect.ValueOf(made))
				}
			}
		}
	}
}

// pipeline is a pipeline of which only those places are looked at that hold something.
type pipeline struct {
	sim.HookableBase
	name    string
	last    int // stage
	cycles  int // that an item stays in a stage
	after   sim.Buffer
	lanes   []pipelineLane
	some    []uint64 // lanes that hold something
	entered int      // lanes whose first stage does
}

type pipelineLane struct {
	held  uint64 // stages that hold something
	items []pipelineItem
}

type pipelineItem struct {
	pipelining.PipelineItem
	left int // cycles
}

// newPipeline makes one of the same sizes; nil: it has none, or too many.
func newPipeline(old pipelining.Pipeline) *pipeline {
	if reflect.TypeOf(old).Elem().Name() != "pipelineImpl" {
		return nil
	}
	stages := int(inside(old, "numStage").Int())
	if stages < 1 || stages > 64 {
		return nil
	}
	p := &pipeline{name: old.Name(), last: stages - 1, cycles: int(inside(old, "cyclePerStage").Int()),
		after: inside(old, "postPipelineBuf").Interface().(sim.Buffer)}
	p.lanes = make([]pipelineLane, inside(old, "width").Int())
	p.Clear()
	return p
}

func (p *pipeline) Name() string { return p.name }

func (p *pipeline) Clear() {
	for i := range p.lanes {
		p.lanes[i] = pipelineLane{items: make([]pipelineItem, p.last+1)}
	}
	p.some, p.entered = make([]uint64, (len(p.lanes)+63)/64), 0
}

func (p *pipeline) CanAccept() bool { return p.entered < len(p.lanes) }

// Accept takes the first lane that is free.
func (p *pipeline) Accept(item pipelining.PipelineItem) {
	at := 0
	for p.lanes[at].held&1 != 0 {
		at++
	}
	l := &p.lanes[at]
	l.items[0] = pipelineItem{item, p.cycles - 1}
	l.held |= 1
	p.some[at/64] |= 1 << (at % 64)
	p.entered++
	if p.NumHooks() > 0 {
		tracing.StartTask(item.TaskID()+"pipeline", item.TaskID(), p, "pipeline", reflect.TypeOf(item).String(), nil)
	}
}

// Tick goes over lanes from the first to the last one, and over their stages from the last to the first.
func (p *pipeline) Tick() bool {
	progress := false
	for word := range p.some {
		for left := p.some[word]; left != 0; left &= left - 1 {
			l := &p.lanes[64*word+bits.TrailingZeros64(left)]
			progress = p.tick(l) || progress
			if l.held == 0 {
				p.some[word] &^= left & -left
			}
		}
	}
	return progress
}

func (p *pipeline) tick(l *pipelineLane) bool {
	progress := false
	for held := l.held; held != 0; {
		at := bits.Len64(held) - 1
		held &^= 1 << at
		item := &l.items[at]
		switch {
		case item.left > 0:
			item.left--
		case at < p.last:
			if l.held>>(at+1)&1 != 0 {
				continue
			}
			l.items[at+1] = pipelineItem{item.PipelineItem, p.cycles - 1}
			l.held |= 1 << (at + 1)
			p.leave(l, at)
		default:
			if !p.after.CanPush() {
				continue
			}
			if p.NumHooks() > 0 {
				tracing.EndTask(item.TaskID()+"pipeline", p)
			}
			p.after.Push(item.PipelineItem)
			p.leave(l, at)
		}
		progress = true
	}
	return progress
}

func (p *pipeline) leave(l *pipelineLane, at int) {
	l.items[at].PipelineItem = nil
	l.held &^= 1 << at
	if at == 0 {
		p.entered--
	}
}

// pageSet is a set of a TLB, which finds a page without writing its address as text, and the page that was
// used longest ago without going through all of them.
type pageSet struct {
	pages []vm.Page       // by their ways
	ways  map[pageKey]int // where they are
	order []pageOrder     // a ring of ways, from the one used longest ago; the last place is between its ends
}

type pageKey struct {
	pid     vm.PID
	address uint64
}

type pageOrder struct{ before, next int32 } // -1: in no ring

func newPageSet(ways int) *pageSet {
	s := &pageSet{pages: make([]vm.Page, ways), order: make([]pageOrder, ways+1)}
	for i := range s.order {
		s.order[i] = pageOrder{-1, -1}
	}
	s.order[ways] = pageOrder{int32(ways), int32(ways)}
	for i := range ways {
		s.Visit(i)
	}
	return s
}

func (s *pageSet) Lookup(pid vm.PID, address uint64) (way int, page vm.Page, found bool) {
	way, found = s.ways[pageKey{pid, address}]
	if found {
		page = s.pages[way]
	}
	return way, page, found
}

func (s *pageSet) Update(way int, page vm.Page) {
	if s.ways == nil {
		s.ways = map[pageKey]int{}
	}
	old := &s.pages[way]
	delete(s.ways, pageKey{old.PID, old.VAddr})
	*old = page
	s.ways[pageKey{page.PID, page.VAddr}] = way
}

// Evict takes the way that was used longest ago out of the order, until it is used again.
func (s *pageSet) Evict() (way int, ok bool) {
	end := len(s.pages)
	first := int(s.order[end].next)
	if first == end {
		return 0, false
	}
	s.remove(first)
	return first, true
}

func (s *pageSet) Visit(way int) {
	if s.order[way].next >= 0 {
		s.remove(way)
	}
	end := int32(len(s.pages))
	last := s.order[end].before
	s.order[way] = pageOrder{last, end}
	s.order[last].next, s.order[end].before = int32(way), int32(way)
}

func (s *pageSet) remove(way int) {
	of := s.order[way]
	s.order[of.before].next, s.order[of.next].before = of.next, of.before
	s.order[way] = pageOrder{-1, -1}
}
