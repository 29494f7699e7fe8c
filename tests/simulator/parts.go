// What the runner puts in the place of parts of Akita and MGPUSim, against these: the same happens.
// test_mgpusim_parts.py compiles it into the runner's own package, as parts_test.go.

package main

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/sarchlab/akita/v4/mem/vm"
	"github.com/sarchlab/akita/v4/mem/vm/tlb"
	"github.com/sarchlab/akita/v4/pipelining"
	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cu"
	"github.com/sarchlab/mgpusim/v4/amd/timing/wavefront"
)

type numbered int

func (n numbered) TaskID() string { return fmt.Sprint(int(n)) }

func TestPipelines(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 200 {
		room, width, stages, cycles := 1+random.Intn(4), 1+random.Intn(70), 1+random.Intn(6), 1+random.Intn(3)
		make := func() (pipelining.Pipeline, sim.Buffer) {
			after := sim.NewBuffer("After", room)
			return pipelining.MakeBuilder().WithPipelineWidth(width).WithNumStage(stages).WithCyclePerStage(cycles).
				WithPostPipelineBuffer(after).Build("Pipeline"), after
		}
		theirs, theirAfter := make()
		old, ourAfter := make()
		ours := newPipeline(old)
		if ours == nil {
			t.Fatal("a pipeline is not known")
		}
		for i := range 400 {
			for theirs.CanAccept() && random.Intn(3) > 0 {
				if !ours.CanAccept() {
					t.Fatal("it takes less")
				}
				theirs.Accept(numbered(i))
				ours.Accept(numbered(i))
			}
			if theirs.CanAccept() != ours.CanAccept() || theirs.Tick() != ours.Tick() {
				t.Fatal("it moves otherwise")
			}
			for random.Intn(3) == 0 {
				if theirAfter.Pop() != ourAfter.Pop() {
					t.Fatal("something else comes out")
				}
			}
			if random.Intn(100) == 0 {
				theirs.Clear()
				ours.Clear()
			}
		}
	}
}

func TestSetsOfTLBs(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	for _, ways := range []int{1, 2, 7, 64} {
		made := tlb.MakeBuilder().WithEngine(sim.NewSerialEngine()).WithNumWays(ways).WithNumSets(1).
			WithTranslationProviderMapperType("single").WithTranslationProviders("MMU").Build("TLB")
		theirs := inside(made, "sets").Index(0).Interface().(interface {
			Lookup(vm.PID, uint64) (int, vm.Page, bool)
			Update(int, vm.Page)
			Evict() (int, bool)
			Visit(int)
		})
		ours := newPageSet(ways)
		for range 5000 {
			page := vm.Page{PID: vm.PID(random.Intn(2)), VAddr: uint64(random.Intn(3*ways)) << 12, PAddr: random.Uint64()}
			way, known, found := theirs.Lookup(page.PID, page.VAddr)
			ourWay, ourKnown, ourFound := ours.Lookup(page.PID, page.VAddr)
			if way != ourWay || known != ourKnown || found != ourFound {
				t.Fatal("another page is found")
			}
			if !found {
				var some, ourSome bool
				way, some = theirs.Evict()
				ourWay, ourSome = ours.Evict()
				if way != ourWay || some != ourSome {
					t.Fatal("another page goes")
				}
				if !some {
					way = random.Intn(ways)
				}
				theirs.Update(way, page)
				ours.Update(way, page)
				if some && random.Intn(4) == 0 { // it is on its way, and others go before it is used
					continue
				}
			}
			theirs.Visit(way)
			ours.Visit(way)
		}
	}
}

func anyOperand(random *rand.Rand) *insts.Operand {
	count := random.Intn(5)
	switch random.Intn(7) {
	case 0:
		return nil
	case 1:
		return insts.NewIntOperand(0, 7)
	case 2:
		return insts.NewRegOperand(0, insts.VCC, 2)
	case 3:
		return insts.NewRegOperand(0, insts.EXEC, 2)
	case 4:
		return insts.NewSRegOperand(0, random.Intn(102), count)
	}
	return insts.NewVRegOperand(0, random.Intn(256), count)
}

func TestScoreboards(t *testing.T) {
	random := rand.New(rand.NewSource(3))
	theirs, ours := cu.NewScoreboard(), new(board)
	units := []insts.ExeUnit{insts.ExeUnitVALU, insts.ExeUnitScalar, insts.ExeUnitBranch, insts.ExeUnitLDS}
	formats := []insts.FormatType{insts.VOPC, insts.VOP2, insts.SOP1}
	for range 20000 {
		if random.Intn(3) == 0 {
			inst := insts.NewInst()
			inst.Format = &insts.Format{FormatType: formats[random.Intn(len(formats))]}
			inst.InstType = &insts.InstType{InstName: []string{"v_add_f64", "v_add_f32"}[random.Intn(2)],
				ExeUnit: units[random.Intn(len(units))]}
			inst.Dst, inst.SDst = anyOperand(random), anyOperand(random)
			latency := cu.GetScoreboardLatency(inst)
			theirs.MarkBusy(inst, latency)
			ours.MarkBusy(inst, latency)
			ours.mark(inst)
		}
		if theirs.AnyBusy() != ours.busy() {
			t.Fatal("something waits, or nothing does")
		}
		theirs.Tick()
		ours.pass()
		if *theirs != ours.Scoreboard {
			t.Fatal("other registers wait, or for another time")
		}
	}
}

func TestRegisters(t *testing.T) {
	random := rand.New(rand.NewSource(4))
	const registers = 512
	theirs, ours := cu.NewSimpleRegisterFile(wavefrontSize*4*registers, 4*registers), newVectorFile(registers)
	theirScalars, ourScalars := cu.NewSimpleRegisterFile(4*scalarRegisters, 0), make(scalarFile, 4*scalarRegisters)
	for range 100000 {
		content := make([]byte, 32)
		random.Read(content)
		count := random.Intn(5)
		access := cu.RegisterAccess{Reg: insts.VReg(random.Intn(250)), RegCount: count, LaneID: random.Intn(wavefrontSize),
			WaveOffset: 16 * random.Intn(64), Data: content}
		files := [2]cu.RegisterFile{theirs, ours}
		if random.Intn(2) == 0 {
			access.Reg, access.LaneID = insts.SReg(random.Intn(98)), 0
			files = [2]cu.RegisterFile{theirScalars, ourScalars}
		}
		if random.Intn(2) == 0 {
			files[0].Write(access)
			files[1].Write(access)
			continue
		}
		if random.Intn(2) == 0 {
			access.Data = access.Data[:4*max(count, 1)]
		}
		files[0].Read(access)
		found := slices.Clone(access.Data)
		random.Read(access.Data[:min(len(access.Data), 4*max(count, 1))])
		files[1].Read(access)
		if !slices.Equal(found, access.Data) {
			t.Fatal("something else is read")
		}
	}
}

// TestLines has a compute unit cut instructions: it takes as many places as there are lines.
func TestLines(t *testing.T) {
	o := options{timing: true, gpu: gpuModels["mi300a"], hardware: newHardware("mi300a", "num_compute_units=6"), gpus: 1}
	m := newMachine(o, 4096)
	var unit *cu.ComputeUnit
	for _, component := range m.simulation.Components() {
		if each, is := component.(*cu.ComputeUnit); is {
			unit = each
		}
	}
	random := rand.New(rand.NewSource(5))
	for range 300 {
		wave := wavefront.NewWavefront(&kernels.Wavefront{})
		wave.RegAccessor = &registerPort{CURegFileAccessor: &cu.CURegFileAccessor{CU: unit, WF: wave},
			vectors: unit.VRegFile[0].(*vectorFile).of(0)}
		inst := insts.NewInst()
		inst.Format = &insts.Format{FormatType: insts.FLAT}
		inst.InstType = &insts.InstType{Opcode: insts.Opcode(20 + random.Intn(4) + 8*random.Intn(2)), ExeUnit: insts.ExeUnitVMem}
		inst.Offset0 = uint32(int32(4 * (random.Intn(2048) - 1024)))
		inst.Dst, inst.Data = insts.NewVRegOperand(8, 8, 4), insts.NewVRegOperand(8, 8, 4)
		inst.Addr, inst.SAddr = insts.NewVRegOperand(0, 0, 2), insts.NewIntOperand(0, 0x7f)
		if random.Intn(2) == 0 {
			inst.Addr, inst.SAddr = insts.NewVRegOperand(0, 0, 1), insts.NewIntOperand(0, 4)
			unit.SRegFile.Write(cu.RegisterAccess{Reg: insts.SReg(4), RegCount: 2,
				Data: insts.Uint64ToBytes(1<<33 + 4*uint64(random.Intn(1000)))})
		}
		apart := []int{4, 8, 16, 20, 128}[random.Intn(5)]
		for lane := range wavefrontSize {
			unit.VRegFile[0].Write(cu.RegisterAccess{Reg: insts.VReg(0), RegCount: 2, LaneID: lane,
				Data: insts.Uint64ToBytes(1<<33 + 8192 + uint64(apart*lane))})
		}
		wave.SetEXEC(random.Uint64() & random.Uint64() >> random.Intn(64))
		wave.SetDynamicInst(wavefront.NewInst(inst))
		lines := countLines(wave)

		unit.InFlightVectorMemAccess = make([]cu.VectorMemAccessInfo, unit.InFlightVectorMemAccessLimit-lines+1)
		unit.VectorMemUnit.AcceptWave(wave)
		for range 10 {
			unit.VectorMemUnit.Run()
		}
		if lines > 0 && len(unit.InFlightVectorMemAccess) > unit.InFlightVectorMemAccessLimit-lines+1 {
			t.Fatal("it is cut where there is no room")
		}
		unit.InFlightVectorMemAccess = unit.InFlightVectorMemAccess[1:]
		for range 10 {
			unit.VectorMemUnit.Run()
		}
		if len(unit.InFlightVectorMemAccess) != unit.InFlightVectorMemAccessLimit && lines > 0 {
			t.Fatalf("%d lines are told, and %d of %d places are taken", lines,
				len(unit.InFlightVectorMemAccess), unit.InFlightVectorMemAccessLimit)
		}
		unit.VectorMemUnit.Flush()
	}
}
