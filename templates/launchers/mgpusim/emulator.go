// The machine of the emulator, made of MGPUSim's public components: its own builder takes no ALU.

package main

import (
	"fmt"

	"github.com/sarchlab/akita/v4/mem/idealmemcontroller"
	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/sim/directconnection"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cp"
)

const emulatedUnits = 64 // compute units of a GPU, each of which runs a work-group after the other

// buildEmulator makes equal GPUs, as samples/runner/emusystem does.
func buildEmulator(s *simulation.Simulation, o options) {
	engine := s.GetEngine()
	storage := mem.NewStorage(uint64(o.gpus+1) * gpuMemory)
	table := vm.NewPageTable(log2Page)
	d := driver.MakeBuilder().WithMagicMemoryCopyMiddleware().WithEngine(engine).WithPageTable(table).
		WithLog2PageSize(log2Page).WithGlobalStorage(storage).Build("Driver")
	s.RegisterComponent(d)
	outside := connect(s, "ExternalConn", d.GetPortByName("GPU"))
	for id := 1; id <= o.gpus; id++ {
		name := fmt.Sprintf("GPU[%d]", id)
		memory := idealmemcontroller.MakeBuilder().WithStorage(storage).WithEngine(engine).
			WithFreq(slowClock).WithLatency(1).Build(name + ".GlobalMem")
		s.RegisterComponent(memory)
		var units []*emu.ComputeUnit
		decoder := newDecoder(o)
		for i := range emulatedUnits {
			accessor := &accessor{StorageAccessor: emu.NewStorageAccessor(storage, table, log2Page, nil),
				storage: storage, table: table}
			unit := emu.NewComputeUnit(fmt.Sprintf("%s.CU%d", name, i), engine, decoder,
				o.hardware.alu(accessor), accessor)
			s.RegisterComponent(unit)
			units = append(units, unit)
		}
		processor := cp.MakeBuilder().WithEngine(engine).WithFreq(slowClock).Build(name + ".CommandProcessor")
		s.RegisterComponent(processor)
		processor.Driver = d.GetPortByName("GPU")
		copies := cp.NewDMAEngine(name+".DMA", engine, &mem.SinglePortMapper{Port: memory.GetPortByName("Top").AsRemote()})
		processor.DMAEngine = copies.ToCP
		inside := connect(s, name+".IntraGPUConn", processor.ToDMA, processor.ToCUs, memory.GetPortByName("Top"),
			copies.ToCP, copies.ToMem)
		for _, unit := range units {
			processor.RegisterCU(unit)
			inside.PlugIn(unit.ToDispatcher)
		}
		d.RegisterGPU(processor.ToDriver, driver.DeviceProperties{CUCount: emulatedUnits, DRAMSize: gpuMemory})
		outside.PlugIn(processor.ToDriver)
	}
}

// connect joins ports.
func connect(s *simulation.Simulation, name string, ports ...sim.Port) *directconnection.Comp {
	made := directconnection.MakeBuilder().WithEngine(s.GetEngine()).WithFreq(slowClock).Build(name)
	s.RegisterComponent(made)
	for _, port := range ports {
		made.PlugIn(port)
	}
	return made
}

// accessor is MGPUSim's way to memory, and a shorter one to places within a page: their translation is
// looked up once, since pages stay where they are while kernels run.
type accessor struct {
	emu.StorageAccessor
	storage *mem.Storage
	table   vm.PageTable
	pages   [64]vm.Page // by the last bits of their numbers
}

const pageNbytes = 1 << log2Page

// physical is where bytes of a page lie; false: they are of several pages, or of none.
func (a *accessor) physical(process vm.PID, address, nbytes uint64) (uint64, bool) {
	at := address % pageNbytes
	if at+nbytes > pageNbytes {
		return 0, false
	}
	page := &a.pages[address/pageNbytes%uint64(len(a.pages))]
	if !page.Valid || page.PID != process || page.VAddr != address-at {
		found, mapped := a.table.Find(process, address)
		if !mapped || !found.Valid || found.VAddr != address-at || found.PageSize != pageNbytes {
			return 0, false
		}
		*page = found
	}
	return page.PAddr + at, true
}

func (a *accessor) Read(process vm.PID, address, nbytes uint64) []byte {
	if place, known := a.physical(process, address, nbytes); known {
		if content, err := a.storage.Read(place, nbytes); err == nil {
			return content
		}
	}
	return a.StorageAccessor.Read(process, address, nbytes)
}

func (a *accessor) Write(process vm.PID, address uint64, content []byte) {
	if place, known := a.physical(process, address, uint64(len(content))); known {
		if a.storage.Write(place, content) == nil {
			return
		}
	}
	a.StorageAccessor.Write(process, address, content)
}
