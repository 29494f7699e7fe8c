// A GPU of the timing model, made of MGPUSim's public components with the sizes of a hardware value:
// its own builders of whole GPUs fix most of them. With those of a model, it times as theirs does.

package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/sarchlab/akita/v4/mem/cache"
	"github.com/sarchlab/akita/v4/mem/cache/writearound"
	"github.com/sarchlab/akita/v4/mem/cache/writeback"
	"github.com/sarchlab/akita/v4/mem/cache/writethrough"
	"github.com/sarchlab/akita/v4/mem/idealmemcontroller"
	"github.com/sarchlab/akita/v4/mem/mem"
	"github.com/sarchlab/akita/v4/mem/vm/mmu"
	"github.com/sarchlab/akita/v4/mem/vm/tlb"
	"github.com/sarchlab/akita/v4/pipelining"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/akita/v4/sim/directconnection"
	"github.com/sarchlab/akita/v4/simulation"
	"github.com/sarchlab/mgpusim/v4/amd/samples/runner/timingconfig/shaderarray"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cp"
	"github.com/sarchlab/mgpusim/v4/amd/timing/mem/simplebankedmemory"
	"github.com/sarchlab/mgpusim/v4/amd/timing/pagemigrationcontroller"
	"github.com/sarchlab/mgpusim/v4/amd/timing/rdma"
)

const (
	log2Line       = 6
	log2Page       = 12
	log2Interleave = 7 // of addresses over the banks of L2
	pageWays       = 64
	slowClock      = 1 * sim.GHz // of what does not follow the GPU's
)

// assembly is a GPU while it is put together.
type assembly struct {
	hardware
	simulation *simulation.Simulation
	name       string
	toL2       *mem.InterleavedAddressPortMapper
	toPages    *mem.SinglePortMapper
	arrays     []*sim.Domain
	l2         []*writeback.Comp
	drams      []sim.Component
	pages      *tlb.Comp // the L2 TLB
	processor  *cp.CommandProcessor
	copies     *cp.DMAEngine
	remote     *rdma.Comp
	migration  *pagemigrationcontroller.PageMigrationController
}

// buildGPU makes the GPU with number `id`, from 1 on. `others` finds the GPUs' remote ports.
func buildGPU(s *simulation.Simulation, h hardware, id int, storage *mem.Storage, pages *mmu.Comp,
	others mem.AddressToPortMapper) *sim.Domain {
	a := &assembly{hardware: h, simulation: s, name: fmt.Sprintf("GPU[%d]", id)}
	start := uint64(id) * gpuMemory
	a.toL2 = mem.NewInterleavedAddressPortMapper(1 << log2Interleave)
	a.toL2.LowAddress, a.toL2.HighAddress, a.toL2.UseAddressSpaceLimitation = start, start+gpuMemory, true
	a.toPages = &mem.SinglePortMapper{}

	a.addShaderArrays(uint64(id))
	a.addMemory(storage)
	a.addL2()
	a.addProcessor(others)
	a.addPages(pages)

	a.connectProcessor()
	a.connectMemory()
	a.connectCaches()
	a.connectPages()

	whole := sim.NewDomain(a.name)
	whole.AddPort("CommandProcessor", a.processor.ToDriver)
	whole.AddPort("RDMARequest", a.remote.RDMARequestOutside)
	whole.AddPort("RDMAData", a.remote.RDMADataOutside)
	whole.AddPort("PageMigrationController", a.migration.GetPortByName("Remote"))
	whole.AddPort("Translation_00", a.pages.GetPortByName("Bottom"))
	return whole
}

func (a *assembly) addShaderArrays(id uint64) {
	lanes := a.registers * wavefrontSize
	builder := shaderarray.MakeBuilder().WithSimulation(a.simulation).WithFreq(a.frequency).WithGPUID(id).
		WithNumCUs(a.ofArray).WithLog2CacheLineSize(log2Line).WithLog2PageSize(log2Page).
		WithL1AddressMapper(a.toL2).WithL1TLBAddressMapper(a.toPages).WithALUFactory(a.alu).
		WithWfPoolSize(a.wavefronts).WithVGPRCount([]int{lanes, lanes, lanes, lanes}).
		WithL1VCacheSize(uint64(a.l1)).WithL1VBankLatency(a.l1Latency)
	if a.wide {
		builder = builder.WithNumSinglePrecisionUnits(16).WithVecMemInstPipelineStages(2).
			WithVecMemTransPipelineStages(4).WithVecMemTransPipelineWidth(8).WithCUMemPipelineBufferSize(64).
			WithMemPipelineBufferSize(64).WithMaxCoalescingPenalty(3).WithRegisterScoreboard(true)
	}
	for i := range a.units / a.ofArray {
		a.arrays = append(a.arrays, builder.Build(fmt.Sprintf("%s.SA[%d]", a.name, i)))
	}
	a.fitCaches()
}

// fitCaches gives the caches of shader arrays what their builder has no options for.
func (a *assembly) fitCaches() {
	for _, component := range a.simulation.Components() {
		if !strings.HasPrefix(component.Name(), a.name+".SA[") {
			continue
		}
		switch each := component.(type) {
		case *writearound.Comp:
			fitWays(each, a.l1, a.l1Ways)
		case *writethrough.Comp:
			if strings.HasSuffix(each.Name(), ".L1ICache") {
				fitLatency(each, a.codeLatency)
			} else {
				fitWays(each, scalarNbytes, a.scalarWays)
				fitLatency(each, a.scalarLatency)
			}
		}
	}
}

// fitWays divides a cache of so many bytes into sets.
func fitWays(of any, nbytes, ways int) {
	made := reflect.ValueOf(cache.NewDirectory(nbytes/(ways*lineNbytes), ways, lineNbytes, cache.NewLRUVictimFinder()))
	inside(of, "directory").Set(made)
	inside(inside(of, "controlStage").Interface(), "directory").Set(made)
	inside(of, "wayAssociativity").SetInt(int64(ways))
}

// fitLatency has each bank of a cache take so many cycles.
func fitLatency(of sim.Component, cycles int) {
	stages := inside(of, "bankStages")
	for i := range stages.Len() {
		stage := stages.Index(i).Interface()
		made := pipelining.MakeBuilder().WithPipelineWidth(int(inside(stage, "numReqPerCycle").Int())).
			WithNumStage(cycles).WithCyclePerStage(1).
			WithPostPipelineBuffer(inside(stage, "postPipelineBuf").Interface().(sim.Buffer)).
			Build(fmt.Sprintf("%s.Bank[%d].Pipeline", of.Name(), i))
		inside(stage, "pipeline").Set(reflect.ValueOf(made))
	}
}

func (a *assembly) addMemory(storage *mem.Storage) {
	for i := range a.banks {
		name := fmt.Sprintf("%s.DRAM[%d]", a.name, i)
		var made sim.Component
		if a.rows {
			made = simplebankedmemory.MakeBuilder().WithEngine(a.simulation.GetEngine()).WithFreq(slowClock).
				WithNumBanks(16).WithBankPipelineWidth(1).WithBankPipelineDepth(a.dramLatency).WithStageLatency(1).
				WithRowBufferSizeLog2(11).WithRowMissDelay(52).WithLog2InterleaveSize(log2Line).
				WithTopPortBufferSize(1024).WithPostPipelineBufferSize(128).
				WithBankAddressConverter(&mem.InterleavingConverter{
					InterleavingSize: 1 << log2Interleave, TotalNumOfElements: a.banks, CurrentElementIndex: i,
				}).WithStorage(storage).Build(name)
		} else {
			made = idealmemcontroller.MakeBuilder().WithEngine(a.simulation.GetEngine()).WithFreq(a.frequency).
				WithLatency(a.dramLatency).WithStorage(storage).Build(name)
		}
		a.simulation.RegisterComponent(made)
		a.drams = append(a.drams, made)
	}
}

func (a *assembly) addL2() {
	builder := writeback.MakeBuilder().WithEngine(a.simulation.GetEngine()).WithFreq(a.frequency).
		WithLog2BlockSize(log2Line).WithWayAssociativity(a.l2Ways).WithByteSize(uint64(a.hardware.l2 / a.banks)).
		WithNumMSHREntry(a.l2MSHRs).WithNumReqPerCycle(a.l2Requests).WithBankLatency(a.l2Latency).
		WithDirectoryLatency(a.l2Directory).WithMaxInflightFetch(a.l2InFlight).WithMaxInflightEviction(a.l2InFlight)
	for i := range a.banks {
		made := builder.WithInterleaving(1<<(log2Interleave-log2Line), a.banks, i).WithAddressMapperType("single").
			WithRemotePorts(a.drams[i].GetPortByName("Top").AsRemote()).Build(fmt.Sprintf("%s.L2Cache[%d]", a.name, i))
		a.simulation.RegisterComponent(made)
		a.l2 = append(a.l2, made)
		a.toL2.LowModules = append(a.toL2.LowModules, made.GetPortByName("Top").AsRemote())
	}
}

func (a *assembly) addProcessor(others mem.AddressToPortMapper) {
	engine := a.simulation.GetEngine()
	a.processor = cp.MakeBuilder().WithEngine(engine).WithVisTracer(a.simulation.GetVisTracer()).
		WithFreq(a.frequency / sim.Freq(a.part)).WithMonitor(a.simulation.GetMonitor()).
		WithConstantKernelLaunchOverhead(a.first / a.part).WithSubsequentKernelLaunchOverhead(a.later / a.part).
		WithConstantKernelOverhead(a.after / a.part).Build(a.name + ".CommandProcessor")
	a.simulation.RegisterComponent(a.processor)
	a.copies = cp.NewDMAEngine(a.name+".DMA", engine, nil)
	a.simulation.RegisterComponent(a.copies)
	a.remote = rdma.MakeBuilder().WithEngine(engine).WithFreq(slowClock).WithLocalModules(a.toL2).Build(a.name + ".RDMA")
	a.remote.RemoteRDMAAddressTable = others
	a.simulation.RegisterComponent(a.remote)
	a.migration = pagemigrationcontroller.NewPageMigrationController(a.name+".PMC", engine, nil, nil)
	a.simulation.RegisterComponent(a.migration)
}

func (a *assembly) addPages(pages *mmu.Comp) {
	top := pages.GetPortByName("Top").AsRemote()
	a.pages = tlb.MakeBuilder().WithEngine(a.simulation.GetEngine()).WithFreq(a.frequency).
		WithNumWays(pageWays).WithNumSets(a.pageSets).WithNumMSHREntry(64 / a.part).WithNumReqPerCycle(1024 / a.part).
		WithPageSize(1 << log2Page).WithLowModule(top).
		WithTranslationProviderMapper(&mem.SinglePortMapper{Port: top}).Build(a.name + ".L2TLB")
	a.simulation.RegisterComponent(a.pages)
	a.toPages.Port = a.pages.GetPortByName("Top").AsRemote()
}

// connection joins ports.
func (a *assembly) connection(name string, ports ...sim.Port) {
	made := directconnection.MakeBuilder().WithEngine(a.simulation.GetEngine()).WithFreq(a.frequency).Build(a.name + name)
	a.simulation.RegisterComponent(made)
	for _, port := range ports {
		made.PlugIn(port)
	}
}

// ofUnits are the ports of this name of all compute units of the shader arrays, and after those of
// each array its ports named in `shared`.
func (a *assembly) ofUnits(name string, shared ...string) []sim.Port {
	var found []sim.Port
	for _, array := range a.arrays {
		for i := range a.ofArray {
			found = append(found, array.GetPortByName(fmt.Sprintf("%s[%d]", name, i)))
		}
		for _, each := range shared {
			found = append(found, array.GetPortByName(each))
		}
	}
	return found
}

func (a *assembly) connectProcessor() {
	p := a.processor
	ports := []sim.Port{p.ToDMA, p.ToCaches, p.ToCUs, p.ToTLBs, p.ToAddressTranslators, p.ToRDMA, p.ToPMC}
	p.RDMA, p.DMAEngine, p.PMC = a.remote.CtrlPort, a.copies.ToCP, a.migration.GetPortByName("Control")
	ports = append(ports, p.RDMA, p.DMAEngine, p.PMC)
	units, controls := a.ofUnits("CU"), a.ofUnits("CUCtrl")
	for i := range units {
		p.RegisterCU(unitRoom{a.hardware, units[i].AsRemote(), controls[i].AsRemote()})
		ports = append(ports, units[i], controls[i])
	}
	p.AddressTranslators = a.ofUnits("L1VAddrTransCtrl", "L1SAddrTransCtrl", "L1IAddrTransCtrl")
	p.TLBs = append(a.ofUnits("L1VTLBCtrl", "L1STLBCtrl", "L1ITLBCtrl"), a.pages.GetPortByName("Control"))
	ports = append(append(ports, p.AddressTranslators...), p.TLBs...)
	for _, array := range a.arrays {
		for i := range a.ofArray {
			p.L1VCaches = append(p.L1VCaches, array.GetPortByName(fmt.Sprintf("L1VCacheCtrl[%d]", i)))
			ports = append(ports, p.L1VCaches[len(p.L1VCaches)-1])
		}
		p.L1SCaches = append(p.L1SCaches, array.GetPortByName("L1SCacheCtrl"))
		p.L1ICaches = append(p.L1ICaches, array.GetPortByName("L1ICacheCtrl"))
		ports = append(ports, p.L1SCaches[len(p.L1SCaches)-1], p.L1ICaches[len(p.L1ICaches)-1])
	}
	for _, cache := range a.l2 {
		p.L2Caches = append(p.L2Caches, cache.GetPortByName("Control"))
		ports = append(ports, cache.GetPortByName("Control"))
	}
	a.connection(".InternalConn", ports...)
}

func (a *assembly) connectMemory() {
	controllers := mem.NewInterleavedAddressPortMapper(1 << log2Interleave)
	var ports []sim.Port
	for i, cache := range a.l2 {
		ports = append(ports, cache.GetPortByName("Bottom"))
		cache.SetAddressToPortMapper(&mem.SinglePortMapper{Port: a.drams[i].GetPortByName("Top").AsRemote()})
	}
	for _, dram := range a.drams {
		ports = append(ports, dram.GetPortByName("Top"))
		controllers.LowModules = append(controllers.LowModules, dram.GetPortByName("Top").AsRemote())
	}
	a.copies.SetLocalDataSource(controllers)
	a.migration.MemCtrlFinder = controllers
	a.connection(".L2ToDRAM", append(ports, a.copies.ToMem, a.migration.GetPortByName("LocalMem"))...)
}

func (a *assembly) connectCaches() {
	a.remote.SetLocalModuleFinder(a.toL2)
	a.toL2.ModuleForOtherAddresses = a.remote.RDMARequestInside.AsRemote()
	ports := []sim.Port{a.remote.RDMARequestInside, a.remote.RDMADataInside}
	for _, cache := range a.l2 {
		ports = append(ports, cache.GetPortByName("Top"))
	}
	a.connection(".L1ToL2", append(ports, a.ofUnits("L1VCacheBottom", "L1SCacheBottom", "L1ICacheBottom")...)...)
}

func (a *assembly) connectPages() {
	ports := []sim.Port{a.pages.GetPortByName("Top")}
	a.connection(".L1TLBToL2TLB", append(ports, a.ofUnits("L1VTLBBottom", "L1STLBBottom", "L1ITLBBottom")...)...)
}

// unitRoom is what a compute unit has room for, as the command processor asks for it.
type unitRoom struct {
	hardware
	work, control sim.RemotePort
}

func (u unitRoom) ControlPort() sim.RemotePort     { return u.control }
func (u unitRoom) DispatchingPort() sim.RemotePort { return u.work }
func (u unitRoom) SRegCount() int                  { return 3200 }
func (u unitRoom) LDSBytes() int                   { return u.lds }
func (u unitRoom) WfPoolSizes() []int              { return ofSIMDs(u.wavefronts) }
func (u unitRoom) VRegCounts() []int               { return ofSIMDs(u.registers * wavefrontSize) }

func ofSIMDs(n int) []int { return []int{n, n, n, n} }
