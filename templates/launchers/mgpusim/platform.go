// The machine around the GPUs of the timing model: driver, page tables and the connection to them.

package main

import (
	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/mem/vm/mmu"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
)

const pageWalks = 16 // at a time

// buildPlatform makes equal GPUs and their memory, as samples/runner/timingconfig does.
func buildPlatform(s *simulation.Simulation, h hardware, gpus int) *directMemory {
	engine := s.GetEngine()
	storage := mem.NewStorage(uint64(gpus+1) * gpuMemory)
	table := vm.NewPageTable(log2Page)
	pages := mmu.MakeBuilder().WithEngine(engine).WithFreq(slowClock).WithPageWalkingLatency(100).
		WithMaxNumReqInFlight(pageWalks / h.part).WithLog2PageSize(log2Page).WithPageTable(table).Build("MMU")
	s.RegisterComponent(pages)
	d := driver.MakeBuilder().WithEngine(engine).WithPageTable(table).WithLog2PageSize(log2Page).
		WithGlobalStorage(storage).WithD2HCycles(h.toHost).WithH2DCycles(h.toDevice).Build("Driver")
	s.RegisterComponent(d)

	others := &mem.BankedAddressPortMapper{BankSize: gpuMemory, LowModules: []sim.RemotePort{"CPU"}}
	network := newNetwork(engine, h.switching, []sim.Port{
		d.GetPortByName("GPU"), d.GetPortByName("MMU"),
		pages.GetPortByName("Migration"), pages.GetPortByName("Top"),
	})
	pages.MigrationServiceProvider = d.GetPortByName("MMU").AsRemote()
	for id := 1; id <= gpus; id++ {
		made := buildGPU(s, h, id, storage, pages, others)
		d.RegisterGPU(made.GetPortByName("CommandProcessor"), driver.DeviceProperties{CUCount: h.units, DRAMSize: gpuMemory})
		others.LowModules = append(others.LowModules, made.GetPortByName("RDMAData").AsRemote())
		network.add(h.topology, made.Ports())
	}
	network.EstablishRoute()
	return &directMemory{storage, table}
}
