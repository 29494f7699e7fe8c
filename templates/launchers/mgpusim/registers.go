// Registers that MGPUSim's ALUs reach sooner, where the emulator spent most of its time and the timing model
// a third. What they hold is the same, bit for bit: `simgen conform` finds the same of every form of every
// instruction.

package main

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
	"github.com/sarchlab/mgpusim/v4/amd/timing/wavefront"
)

const (
	rowNbytes  = 4 * wavefrontSize // of a vector register
	laneNbytes = 4 * 256           // of a lane, as MGPUSim's emulator lays registers out
	// Vector registers that are set before a wavefront begins: the work-item's place in its group.
	preset = 3
)

// lanes is a vector register of all lanes.
type lanes = [rowNbytes]byte

func lane(r *lanes, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(r[4*i : 4*i+4]))
}

// vector is the number of a vector register.
func vector(operand *insts.Operand) (number int, is bool) {
	if operand.OperandType != insts.RegOperand {
		return 0, false
	}
	number = int(operand.Register.RegType - insts.V0)
	return number, uint(number) <= uint(insts.V255-insts.V0)
}

// fast is an ALU of MGPUSim's over registers that are quicker to get at.
type fast struct {
	emu.ALU
	products map[opcode]bool
	emulated emulatedWave
	timed    timedWave
}

func newFast(alu emu.ALU) emu.ALU { return &fast{ALU: alu, products: multiplyAdds[alu.ArchName()]} }

func (f *fast) Run(state emu.InstEmuState) {
	switch wave := state.(type) {
	case *emu.Wavefront:
		f.emulated.take(wave)
		if !f.emulated.multiplyAdd(f.products) {
			f.ALU.Run(&f.emulated)
		}
	case *wavefront.Wavefront:
		f.timed.take(wave)
		if !f.timed.multiplyAdd(f.products) {
			f.ALU.Run(&f.timed)
		}
	default:
		f.ALU.Run(state)
	}
}

// turned is a wavefront whose vector registers lie one after the other, all lanes of each together: lanes
// 1 KiB apart would share a few lines of the host's first-level cache, and each be a line of their own.
type turned struct {
	emu.InstEmuState
	content []byte
	scalars [3]lanes // sources that are the same for all lanes
	results [2]lanes
}

func (w *turned) ReadOperand(operand *insts.Operand, lane int) uint64 {
	number, is := vector(operand)
	if !is {
		return w.InstEmuState.ReadOperand(operand, lane)
	}
	at := number*rowNbytes + 4*lane
	value := uint64(binary.LittleEndian.Uint32(w.content[at:]))
	if operand.RegCount >= 2 {
		value |= uint64(binary.LittleEndian.Uint32(w.content[at+rowNbytes:])) << 32
	}
	return value
}

func (w *turned) WriteOperand(operand *insts.Operand, lane int, value uint64) {
	number, is := vector(operand)
	if !is {
		w.InstEmuState.WriteOperand(operand, lane, value)
		return
	}
	at := number*rowNbytes + 4*lane
	binary.LittleEndian.PutUint32(w.content[at:], uint32(value))
	if operand.RegCount == 2 {
		binary.LittleEndian.PutUint32(w.content[at+rowNbytes:], uint32(value>>32))
	} else if operand.RegCount > 2 {
		panic("slice bounds out of range: two registers are written at once, at most")
	}
}

func (w *turned) ReadOperandBytes(operand *insts.Operand, lane int, nbytes int) []byte {
	number, is := vector(operand)
	if !is {
		return w.InstEmuState.ReadOperandBytes(operand, lane, nbytes)
	}
	content := make([]byte, 4*max(operand.RegCount, 1))
	for at := 0; at < len(content); at += 4 {
		copy(content[at:at+4], w.content[number*rowNbytes+4*lane:])
		number++
	}
	return content[:min(nbytes, len(content))]
}

func (w *turned) WriteOperandBytes(operand *insts.Operand, lane int, content []byte) {
	number, is := vector(operand)
	if !is {
		w.InstEmuState.WriteOperandBytes(operand, lane, content)
		return
	}
	content = content[:min(len(content), 4*max(operand.RegCount, 1))]
	for at := 0; at < len(content); at += 4 {
		copy(w.content[number*rowNbytes+4*lane:], content[at:min(at+4, len(content))])
		number++
	}
}

// emulatedWave is a wavefront of the emulator.
type emulatedWave struct {
	turned
	wave  *emu.Wavefront
	group *kernels.WorkGroup
	known map[*emu.Wavefront]bool // waves of the work-group
}

// take makes a wavefront the one that executes. A compute unit runs one work-group after the other.
func (w *emulatedWave) take(wave *emu.Wavefront) {
	if wave == w.wave {
		return
	}
	if wave.WG != w.group {
		w.group, w.known = wave.WG, map[*emu.Wavefront]bool{}
	}
	w.wave, w.InstEmuState, w.content = wave, wave, wave.VRegFile
	if w.known[wave] {
		return
	}
	w.known[wave] = true
	var values [preset * rowNbytes]byte
	for i := range wavefrontSize {
		of := wave.VRegFile[i*laneNbytes:][:preset*4]
		for v := range preset {
			copy(values[v*rowNbytes+4*i:][:4], of[4*v:])
		}
		clear(of)
	}
	copy(wave.VRegFile, values[:])
}

// timedWave is a wavefront of the timing model.
type timedWave struct {
	turned
	shared []byte // its scalar registers
}

// take makes a wavefront the one that executes.
func (w *timedWave) take(wave *wavefront.Wavefront) {
	unit := wave.RegAccessor.(*registerPort).CU
	w.InstEmuState = wave
	w.content = unit.VRegFile[wave.SIMDID].(*vectorFile).of(wave.VRegOffset)
	w.shared = unit.SRegFile.(scalarFile)[wave.SRegOffset:]
}

func (w *timedWave) ReadOperand(operand *insts.Operand, lane int) uint64 {
	if operand.OperandType != insts.RegOperand || !operand.Register.IsSReg() {
		return w.turned.ReadOperand(operand, lane)
	}
	at := 4 * operand.Register.RegIndex()
	if operand.RegCount >= 2 {
		return binary.LittleEndian.Uint64(w.shared[at:])
	}
	return uint64(binary.LittleEndian.Uint32(w.shared[at:]))
}

// Instructions that add a product of float32, by format and opcode, as each architecture has them.
type opcode struct {
	format insts.FormatType
	number insts.Opcode
}

var multiplyAdds = map[string]map[opcode]bool{ // whether they take pairs
	"GCN3":  {{insts.VOP2, 22}: false, {insts.VOP3a, 449}: false},
	"CDNA3": {{insts.VOP2, 59}: false, {insts.VOP3a, 449}: false, {insts.VOP3a, 459}: false, {insts.VOP3a, 944}: true},
}

// multiplyAdd executes the instruction if it is one of those that layers consist of, without modifiers:
// product and sum are rounded each, as by MGPUSim. Where a result is no number, it says false, and leaves
// the instruction to MGPUSim: bits of such a value depend on the order of the operands.
func (w *turned) multiplyAdd(known map[opcode]bool) bool {
	inst := w.Inst()
	if inst.FormatType != insts.VOP2 && inst.FormatType != insts.VOP3a {
		return false
	}
	pairs, is := known[opcode{inst.FormatType, inst.Opcode}]
	if !is || inst.IsSdwa || inst.Abs != 0 || inst.Neg != 0 || inst.Omod != 0 || inst.Clamp ||
		inst.Src0Neg || inst.Src1Neg || inst.Src2Neg || inst.Src0Abs || inst.Src1Abs || inst.Src2Abs {
		return false
	}
	sources := [3]*insts.Operand{inst.Src0, inst.Src1, inst.Src2}
	if inst.FormatType == insts.VOP2 {
		sources[2] = inst.Dst
	}
	to, is := vector(inst.Dst)
	if !is || pairs && inst.Dst.RegCount != 2 {
		return false
	}
	results, halves := w.results[:1], [2]int{}
	if pairs {
		results, halves = w.results[:2], [2]int{inst.OpSel, inst.OpSelHi}
	}
	for i := range results {
		var of [3]*lanes
		for at, source := range sources {
			if of[at] = w.source(source, halves[i]>>at&1, &w.scalars[at]); of[at] == nil {
				return false
			}
		}
		if addProducts(&results[i], of)&w.EXEC() != 0 {
			return false
		}
	}
	for i := range results {
		into := w.row(to + i)
		for left := w.EXEC(); left != 0; left &= left - 1 {
			at := 4 * bits.TrailingZeros64(left)
			copy(into[at:at+4], results[i][at:at+4])
		}
	}
	return true
}

// source is a half of an operand, of all lanes. What is not a vector register is the same for all, and
// written to `scalar`.
func (w *turned) source(operand *insts.Operand, half int, scalar *lanes) *lanes {
	if number, is := vector(operand); is {
		if half > 0 && operand.RegCount != 2 {
			return nil
		}
		return w.row(number + half)
	}
	value := uint32(w.InstEmuState.ReadOperand(operand, 0) >> (32 * half))
	for i := range wavefrontSize {
		binary.LittleEndian.PutUint32(scalar[4*i:4*i+4], value)
	}
	return scalar
}

// addProducts tells in which lanes the result is no number.
func addProducts(result *lanes, of [3]*lanes) uint64 {
	none := uint64(0)
	a, b, c := of[0], of[1], of[2]
	for i := range wavefrontSize {
		sum := lane(a, i)*lane(b, i) + lane(c, i)
		if sum != sum {
			none |= 1 << i
		}
		binary.LittleEndian.PutUint32(result[4*i:4*i+4], math.Float32bits(sum))
	}
	return none
}

func (w *turned) row(number int) *lanes { return (*lanes)(w.content[number*rowNbytes:]) }
