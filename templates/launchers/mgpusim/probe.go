// A probe: a bundle whose kernels hold instructions that MGPUSim may lack, each to be tried.
//
// `simgen conform` lists them in probe.json, with the bytes of each: what MGPUSim cannot decode
// need not be as long as it takes it for. One that it cannot decode or that panics is told in
// probe.csv and left out from then on, with what is around it to look at its result; everything else
// is as in any bundle.

package main

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
)

const (
	probeFile = target + "/probe.json"
	sBranch   = 0xbf820000 // and the words from the next instruction to where it goes
)

type probe struct {
	tried map[string]map[uint64]block // kernel -> byte at which an instruction begins -> around it
	left  map[string]map[uint64]bool  // those that are left out
	rows  *csv.Writer
	code  func(*kernel) uint64 // where it lies
}

// block is an instruction that is tried: its bytes, and where what is around it begins and ends.
type block struct{ nbytes, from, to uint64 }

// readProbe reads the list of a bundle that is a probe; nil if it is none.
func readProbe(b *bundle, results string) *probe {
	if _, listed := b.Manifest.Files[probeFile]; !listed {
		return nil
	}
	var tried map[string][][4]uint64
	if err := json.Unmarshal(b.read(probeFile), &tried); err != nil {
		fail(exitDamaged, "%s: damaged (%v); build the bundle again", probeFile, err)
	}
	file, err := os.Create(filepath.Join(results, "probe.csv"))
	if err != nil {
		fail(exitNoOutput, "probe.csv: cannot be written (%v); check the folder, its permissions and the space on the disk", reason(err))
	}
	p := &probe{map[string]map[uint64]block{}, map[string]map[uint64]bool{}, csv.NewWriter(file), nil}
	for name, list := range tried {
		p.tried[name], p.left[name] = map[uint64]block{}, map[uint64]bool{}
		for _, each := range list {
			p.tried[name][each[0]] = block{each[1], each[2], each[3]}
		}
	}
	return p
}

func (p *probe) leaveOut(kernel string, at uint64, why string) {
	p.left[kernel][at] = true
	p.rows.Write([]string{kernel, strconv.FormatUint(at, 10), strings.TrimSpace(why)})
	p.rows.Flush()
	if err := p.rows.Error(); err != nil {
		fail(exitNoOutput, "probe.csv: cannot be written (%v); check the space on the disk", reason(err))
	}
}

// replace puts s_nop in the place of what MGPUSim cannot decode, or not as the instruction it is.
func (p *probe) replace(name string, object *insts.KernelCodeObject, o options) {
	decoder := disassembler(o)
	for at, b := range p.tried[name] {
		if b.from > at || at+b.nbytes > b.to || b.to > uint64(len(object.Data)) {
			fail(exitDamaged, "%s: an instruction lies outside of kernel %s; build the bundle again", probeFile, name)
		}
		inst, err := tryDecode(decoder, object.Data[at:])
		why := ""
		if err != nil {
			why = fmt.Sprintf("cannot be decoded: %v", err)
		} else if uint64(inst.ByteSize) != b.nbytes {
			why = fmt.Sprintf("decoded as %s of %d bytes, and it has %d", inst.InstName, inst.ByteSize, b.nbytes)
		}
		if why == "" {
			continue
		}
		for word := at; word < at+b.nbytes; word += 4 {
			binary.LittleEndian.PutUint32(object.Data[word:], sNop)
		}
		binary.LittleEndian.PutUint32(object.Data[b.from:], sBranch|uint32(b.to-b.from)/4-1)
		p.leaveOut(name, at, why)
	}
}

// guarded is an ALU of MGPUSim's whose panics, of instructions that are tried, go no further.
type guarded struct {
	emu.ALU
	probe *probe
}

func (g guarded) Run(state emu.InstEmuState) {
	name, at, tried := g.probe.place(state)
	if tried && g.probe.left[name][at] {
		g.probe.pass(state, name, at)
		return
	}
	defer func() {
		if why := recover(); why != nil {
			if !tried {
				panic(why)
			}
			g.probe.leaveOut(name, at, fmt.Sprint(why))
			g.probe.pass(state, name, at)
		}
	}()
	g.ALU.Run(state)
}

// pass goes on behind what is around an instruction, in the emulator; the timing model has fetched
// what follows already.
func (p *probe) pass(state emu.InstEmuState, name string, at uint64) {
	b := p.tried[name][at]
	if start := p.code(running.kernel); state.PC() == start+at+b.nbytes {
		state.SetPC(start + b.to)
	}
}

// place tells which instruction is executed. The program counter of the emulator is behind it, that of
// the timing model before it; between two that are tried lie others.
func (p *probe) place(state emu.InstEmuState) (name string, at uint64, tried bool) {
	k := running.kernel
	if k == nil {
		return "", 0, false
	}
	nbytes := uint64(state.Inst().ByteSize)
	for _, at := range []uint64{state.PC() - p.code(k) - nbytes, state.PC() - p.code(k)} {
		if p.tried[k.name][at].nbytes == nbytes {
			return k.name, at, true
		}
	}
	return k.name, 0, false
}

// guard is the factory of ALUs for the compute units.
func (p *probe) guard(made emu.ALUFactory) emu.ALUFactory {
	return func(s emu.StorageAccessor) emu.ALU { return guarded{made(s), p} }
}
