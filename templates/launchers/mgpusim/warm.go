// What the launches before a sampled one would have left in L2 and its TLB, were they whole: put there
// at once, without time (functional warming, as of Wunderlich et al., SMARTS, ISCA 2003).

package main

import (
	"reflect"
	"strings"

	"github.com/sarchlab/akita/v4/mem/cache"
	"github.com/sarchlab/akita/v4/mem/cache/writeback"
	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/mem/vm/tlb"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
)

// warmer reaches what MGPUSim 4.2.0 has no door to: the directories of L2 and the sets of its TLB.
type warmer struct {
	*directMemory
	pid   vm.PID
	banks []warmBank
	pages reflect.Value // the sets of the L2 TLB: each an interface
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
	if d.sample.Code {
		m.warmer.touch(d.gpu.code[d.kernel], uint64(len(d.kernel.object.Data)), true, true)
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
		case *tlb.Comp:
			if strings.HasSuffix(each.Name(), ".L2TLB") {
				w.pages = inside(each, "sets")
			}
		}
	}
	return w
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
	set := w.pages.Index(int(page.VAddr >> log2Page % uint64(w.pages.Len()))).Elem()
	call := func(name string, args ...any) []reflect.Value {
		values := make([]reflect.Value, len(args))
		for i, each := range args {
			values[i] = reflect.ValueOf(each)
		}
		return set.MethodByName(name).Call(values)
	}
	found := call("Lookup", page.PID, page.VAddr)
	way := int(found[0].Int())
	if !found[2].Bool() {
		evicted := call("Evict")
		if !evicted[1].Bool() {
			return
		}
		way = int(evicted[0].Int())
		call("Update", way, page)
	}
	call("Visit", way)
}

func (w *warmer) touchLine(address uint64) {
	bank := w.banks[address>>log2Interleave%uint64(len(w.banks))]
	block := bank.directory.Lookup(0, address)
	if block == nil {
		block = bank.directory.FindVictim(address)
		if block.IsLocked || block.ReadCount > 0 {
			return
		}
		if block.IsValid && block.IsDirty {
			old, _ := bank.storage.Read(block.CacheAddress, lineNbytes)
			for i, changed := range block.DirtyMask {
				if changed {
					_ = w.storage.Write(block.Tag+uint64(i), old[i:i+1])
				}
			}
		}
		content, _ := w.storage.Read(address, lineNbytes)
		_ = bank.storage.Write(block.CacheAddress, content)
		block.PID, block.Tag, block.IsValid, block.IsDirty, block.DirtyMask = 0, address, true, false, nil
	}
	bank.directory.Visit(block)
}
