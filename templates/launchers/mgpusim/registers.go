// Registers that MGPUSim's ALUs reach sooner, where the emulator spent most of its time. What they hold is
// the same, bit for bit: `simgen conform` finds the same of every form of every instruction.

package main

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/sarchlab/mgpusim/v4/amd/kernels"
	"github.com/sarchlab/mgpusim/v4/amd/timing/cu"
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
		f.timed.Wavefront = wave
		f.ALU.Run(&f.timed)
	default:
		f.ALU.Run(state)
	}
}

// emulatedWave is a wavefront of the emulator whose vector registers lie one after the other, all lanes
// of each together: lanes 1 KiB apart would share a few lines of the host's first-level cache.
type emulatedWave struct {
	*emu.Wavefront
	group   *kernels.WorkGroup
	turned  map[*emu.Wavefront]bool // waves of the work-group
	scalars [3]lanes                // sources that are the same for all lanes
	results [2]lanes
}

// take makes a wavefront the one that executes. A compute unit runs one work-group after the other.
func (w *emulatedWave) take(wave *emu.Wavefront) {
	if wave == w.Wavefront {
		return
	}
	if wave.WG != w.group {
		w.group, w.turned = wave.WG, map[*emu.Wavefront]bool{}
	}
	w.Wavefront = wave
	if w.turned[wave] {
		return
	}
	w.turned[wave] = true
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

func (w *emulatedWave) ReadOperand(operand *insts.Operand, lane int) uint64 {
	number, is := vector(operand)
	if !is {
		return w.Wavefront.ReadOperand(operand, lane)
	}
	at := number*rowNbytes + 4*lane
	value := uint64(binary.LittleEndian.Uint32(w.VRegFile[at:]))
	if operand.RegCount >= 2 {
		value |= uint64(binary.LittleEndian.Uint32(w.VRegFile[at+rowNbytes:])) << 32
	}
	return value
}

func (w *emulatedWave) WriteOperand(operand *insts.Operand, lane int, value uint64) {
	number, is := vector(operand)
	if !is {
		w.Wavefront.WriteOperand(operand, lane, value)
		return
	}
	at := number*rowNbytes + 4*lane
	binary.LittleEndian.PutUint32(w.VRegFile[at:], uint32(value))
	if operand.RegCount == 2 {
		binary.LittleEndian.PutUint32(w.VRegFile[at+rowNbytes:], uint32(value>>32))
	} else if operand.RegCount > 2 {
		panic("slice bounds out of range: two registers are written at once, at most")
	}
}

func (w *emulatedWave) ReadOperandBytes(operand *insts.Operand, lane int, nbytes int) []byte {
	number, is := vector(operand)
	if !is {
		return w.Wavefront.ReadOperandBytes(operand, lane, nbytes)
	}
	content := make([]byte, 4*max(operand.RegCount, 1))
	for at := 0; at < len(content); at += 4 {
		copy(content[at:at+4], w.VRegFile[number*rowNbytes+4*lane:])
		number++
	}
	return content[:min(nbytes, len(content))]
}

func (w *emulatedWave) WriteOperandBytes(operand *insts.Operand, lane int, content []byte) {
	number, is := vector(operand)
	if !is {
		w.Wavefront.WriteOperandBytes(operand, lane, content)
		return
	}
	content = content[:min(len(content), 4*max(operand.RegCount, 1))]
	for at := 0; at < len(content); at += 4 {
		copy(w.VRegFile[number*rowNbytes+4*lane:], content[at:min(at+4, len(content))])
		number++
	}
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
func (w *emulatedWave) multiplyAdd(known map[opcode]bool) bool {
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
func (w *emulatedWave) source(operand *insts.Operand, half int, scalar *lanes) *lanes {
	if number, is := vector(operand); is {
		if half > 0 && operand.RegCount != 2 {
			return nil
		}
		return w.row(number + half)
	}
	value := uint32(w.Wavefront.ReadOperand(operand, 0) >> (32 * half))
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

func (w *emulatedWave) row(number int) *lanes { return (*lanes)(w.VRegFile[number*rowNbytes:]) }

// timedWave is a wavefront of the timing model. Its registers are read to the same place again and again,
// which saves a piece of memory for each lane.
type timedWave struct {
	*wavefront.Wavefront
	content [8]byte
}

// access is how to reach an operand in a register file; nil: it is in none of those, or too large.
func (w *timedWave) access(operand *insts.Operand) (*cu.SimpleRegisterFile, cu.RegisterAccess) {
	if operand.OperandType != insts.RegOperand || operand.RegCount > 2 {
		return nil, cu.RegisterAccess{}
	}
	unit := w.RegAccessor.(*cu.CURegFileAccessor).CU
	access := cu.RegisterAccess{Reg: operand.Register, RegCount: max(operand.RegCount, 1)}
	access.Data = w.content[:4*access.RegCount]
	if operand.Register.IsVReg() {
		access.WaveOffset = w.VRegOffset
		return unit.VRegFile[w.SIMDID].(*cu.SimpleRegisterFile), access
	}
	if operand.Register.IsSReg() {
		access.WaveOffset = w.SRegOffset
		return unit.SRegFile.(*cu.SimpleRegisterFile), access
	}
	return nil, access
}

func (w *timedWave) ReadOperand(operand *insts.Operand, lane int) uint64 {
	file, access := w.access(operand)
	if file == nil {
		return w.Wavefront.ReadOperand(operand, lane)
	}
	w.content, access.LaneID = [8]byte{}, lane
	file.Read(access)
	return binary.LittleEndian.Uint64(w.content[:])
}

func (w *timedWave) WriteOperand(operand *insts.Operand, lane int, value uint64) {
	file, access := w.access(operand)
	if file == nil {
		w.Wavefront.WriteOperand(operand, lane, value)
		return
	}
	binary.LittleEndian.PutUint64(w.content[:], value)
	access.LaneID = lane
	file.Write(access)
}
