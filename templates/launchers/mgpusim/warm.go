// What the launches before a sampled one would have left in L2 and its TLB, were they whole: put there
// at once, without time (functional warming, as of Wunderlich et al., SMARTS, ISCA 2003).

package main

import (
	"math"
	"slices"
	"strings"

	"github.com/sarchlab/akita/v4/mem/cache"
	"github.com/sarchlab/akita/v4/mem/cache/writeback"
	"github.com/sarchlab/akita/v4/mem/cache/writethrough"
	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/mem/vm/tlb"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
)

const codeNbytes = 32 << 10 // of a cache of instructions

// warmer reaches what MGPUSim 4.2.0 has no door to: the directories of L2 and the sets of its TLB.
type warmer struct {
	*directMemory
	pid   vm.PID
	banks []warmBank
	pages []*pageSet // of the L2 TLB
	code  []warmBank // caches of instructions
}

type warmBank struct {
	directory cache.Directory
	storage   *mem.Storage
}

// warm leaves in L2 what a sampled launch would find there.
func (m *machine) warm(d *dispatch) {
	if d.sample.Part < 2 {
		return
	}
	if m.warmer == nil {
		m.warmer = m.newWarmer()
	}
	engine := m.simulation.GetEngine()
	engine.Pause()
	defer engine.Continue()
	m.warmer.forget()
	code := d.gpu.code[d.kernel]
	if d.sample.Code {
		m.warmer.touch(code, uint64(len(d.kernel.object.Data)), true, true)
	}
	if d.sample.recent {
		m.warmer.fetch(code, d.kernel.object.Data)
	}
	for _, each := range d.sample.Warm {
		m.warmer.touch(d.gpu.arena+driver.Ptr(each[0]), each[1], true, false)
	}
	for _, each := range d.sample.Pages {
		m.warmer.touch(d.gpu.arena+driver.Ptr(each[0]), each[1], false, true)
	}
}

func (m *machine) newWarmer() *warmer {
	w := &warmer{directMemory: m.memory, pid: m.process()}
	for _, component := range m.simulation.Components() {
		switch each := component.(type) {
		case *writeback.Comp: // in the order in which addresses go around them
			w.banks = append(w.banks, warmBank{
				inside(each, "directory").Interface().(cache.Directory), inside(each, "storage").Interface().(*mem.Storage),
			})
		case *writethrough.Comp:
			if strings.HasSuffix(each.Name(), ".L1ICache") {
				w.code = append(w.code, warmBank{
					inside(each, "directory").Interface().(cache.Directory), inside(each, "storage").Interface().(*mem.Storage),
				})
			}
		case *tlb.Comp:
			if strings.HasSuffix(each.Name(), ".L2TLB") {
				sets := inside(each, "sets")
				for i := range sets.Len() {
					w.pages = append(w.pages, sets.Index(i).Interface().(*pageSet))
				}
			}
		}
	}
	return w
}

// forget empties L2 and its TLB: of launches of which a part ran, they hold less, and so for longer. A
// TLB that has room for all of memory loses nothing.
func (w *warmer) forget() {
	for _, bank := range w.banks {
		for _, set := range bank.directory.GetSets() {
			for _, block := range set.Blocks {
				if block.IsValid && !block.IsLocked && block.ReadCount == 0 {
					w.writeBack(bank, block)
					block.IsValid, block.IsDirty = false, false
				}
			}
		}
	}
	if len(w.pages)*pageWays<<log2Page >= gpuMemory {
		return
	}
	for _, set := range w.pages {
		for way := range pageWays { // pages of nobody
			set.Update(way, vm.Page{PID: math.MaxUint32, VAddr: uint64(way) << log2Page})
		}
	}
}

// writeBack gives memory what a block of L2 has and memory has not.
func (w *warmer) writeBack(bank warmBank, block *cache.Block) {
	if !block.IsDirty {
		return
	}
	content, _ := bank.storage.Read(block.CacheAddress, lineNbytes)
	for i, changed := range block.DirtyMask {
		if changed {
			_ = w.storage.Write(block.Tag+uint64(i), content[i:i+1])
		}
	}
}

// touch makes nbytes from an address on what was used last in L2, in its TLB, or in both. Nothing may
// be on its way.
func (w *warmer) touch(from driver.Ptr, nbytes uint64, lines, pages bool) {
	const size = 1 << log2Page
	end := uint64(from) + nbytes
	for at := uint64(from); at < end; {
		next := min(at/size*size+size, end)
		page, found := w.table.Find(w.pid, at)
		if found && pages {
			w.touchPage(page)
		}
		for line := at / lineNbytes * lineNbytes; found && lines && line < next; line += lineNbytes {
			w.touchLine(page.PAddr + line%size)
		}
		at = next
	}
}

// touchPage leaves alone what is there: of an entry that is used again, the TLB forgets nothing.
func (w *warmer) touchPage(page vm.Page) {
	set := w.pages[page.VAddr>>log2Page%uint64(len(w.pages))]
	way, _, found := set.Lookup(page.PID, page.VAddr)
	if !found {
		evicted, some := set.Evict()
		if !some {
			return
		}
		way = evicted
		set.Update(way, page)
	}
	set.Visit(way)
}

func (w *warmer) touchLine(address uint64) {
	bank := w.banks[address>>log2Interleave%uint64(len(w.banks))]
	block := bank.directory.Lookup(0, address)
	if block == nil {
		block = bank.directory.FindVictim(address)
		if block.IsLocked || block.ReadCount > 0 {
			return
		}
		if block.IsValid {
			w.writeBack(bank, block)
		}
		content, _ := w.storage.Read(address, lineNbytes)
		_ = bank.storage.Write(block.CacheAddress, content)
		block.PID, block.Tag, block.IsValid, block.IsDirty, block.DirtyMask = 0, address, true, false, nil
	}
	bank.directory.Visit(block)
}

// fetch puts code into all caches of instructions, which know it by the addresses of the process.
func (w *warmer) fetch(from driver.Ptr, code []byte) {
	for at := uint64(from); at < uint64(from)+uint64(len(code)); at += lineNbytes {
		line := make([]byte, lineNbytes)
		copy(line, code[at-uint64(from):])
		for _, each := range w.code {
			block := each.directory.Lookup(w.pid, at)
			if block == nil {
				block = each.directory.FindVictim(at)
				if block.IsLocked || block.ReadCount > 0 {
					continue
				}
				_ = each.storage.Write(block.CacheAddress, line)
				block.PID, block.Tag, block.IsValid = w.pid, at, true
			}
			each.directory.Visit(block)
		}
	}
}

// findRecent tells of samples on a part of the machine whether their code is in caches of instructions:
// of kernels that ran before, those hold what was fetched last.
func findRecent(w *workload, kernels map[string]*kernel, samples map[int]*sample) {
	if partOf(samples) < 2 { // shares of several GPUs have kernels of their own
		return
	}
	var last []string // kernels, the last one at the end
	number := 0
	for _, s := range w.Steps {
		for _, l := range s.Launches {
			held := 0
			for i := len(last) - 1; i >= 0 && held < codeNbytes; i-- {
				held += len(kernels[last[i]].object.Data)
				if last[i] == l.Kernel && held <= codeNbytes && samples[number] != nil {
					samples[number].recent = samples[number].Part > 1
				}
			}
			last = append(slices.DeleteFunc(last, func(name string) bool { return name == l.Kernel }), l.Kernel)
			number++
		}
	}
}
