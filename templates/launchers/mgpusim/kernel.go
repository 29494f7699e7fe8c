// Kernels: from a linked code object to what MGPUSim takes.

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sarchlab/mgpusim/v4/amd/insts"
)

const (
	descriptorNbytes = 64
	machGfx803       = 0x2a // the low byte of e_flags, EF_AMDGPU_MACH
	machGfx942       = 0x4c
	// The fetch unit runs ahead of the last instruction, over a cache line and, at a page's end,
	// into an unmapped page: so instructions follow every kernel.
	fetchAhead = 256
	sNop       = 0xbf800000
)

type kernel struct {
	name      string
	block     uint16
	group     [3]uint16 // its extents
	lds       uint32    // that its launches ask for beside its own
	object    *insts.KernelCodeObject
	insts     []*insts.Inst // decoded, in order
	legalised bool          // instructions that MGPUSim lacks or gets wrong were replaced
	cure      string        // what to do about one that is left
}

// loadKernels reads all code objects before anything is simulated: what cannot run is refused now.
func loadKernels(b *bundle, s *sharding, p *probe, o options) map[string]*kernel {
	made := b.Manifest.Targets[target]
	cure := "use another algorithm or another target"
	if !made.Legalise {
		cure = "build the bundle again without --no-legalise"
	}
	kernels := map[string]*kernel{}
	for _, k := range s.Workload.Kernels {
		file := s.kernels + k.Name + ".co"
		raw := b.read(file)
		symbol, group, lds := k.Name, [3]uint16{k.Block, 1, 1}, uint32(0)
		if k.Source != nil {
			lds = k.LDSNbytes
			if k.Source.Language == "object" || k.Source.Language == "assembly" {
				symbol = k.Source.Entry
			}
		}
		if len(k.Group) == 3 {
			group = [3]uint16(k.Group)
		}
		object, mach, err := codeObject(raw, symbol)
		if err != nil {
			fail(exitDamaged, "%s: %v; build the bundle again", file, err)
		}
		if mach != o.gpu.mach {
			fail(exitRefused, "%s: it is for %s, which the GPU %s does not run; %s",
				file, made.Arch, o.gpu.name, o.gpu.cure)
		}
		if p != nil {
			p.replace(k.Name, object, o)
		}
		kernels[k.Name] = &kernel{k.Name, k.Block, group, lds, object, decode(s.Workload.place(k.Name), object, o, cure), made.Legalise, cure}
		if o.timing {
			// Its compute units put ids into one register for each dimension, whatever the GPU:
			// packed ones would be those of the first dimension, and 0.
			if p == nil && object.Version == insts.CodeObjectV5 && group[1]*group[2] > 1 {
				fail(exitRefused, "kernel %s: the timing model gives %s no ids of work-items in the second and third "+
					"dimension; give it a block of one dimension, or run it with --mode emu", k.Name, o.gpu.name)
			}
			o.hardware.holds(kernels[k.Name])
		}
	}
	return kernels
}

// decode disassembles a kernel. The timing model waits for ever at what it cannot decode.
func decode(place string, object *insts.KernelCodeObject, o options, cure string) []*insts.Inst {
	decoder := disassembler(o)
	var found []*insts.Inst
	end := len(object.Data) - fetchAhead
	for at := 0; at < end; {
		inst, err := tryDecode(decoder, object.Data[at:])
		if err != nil {
			word := fmt.Sprintf("%08x", binary.LittleEndian.Uint32(object.Data[at:]))
			fail(exitRefused, "%sMGPUSim cannot decode %s (%v); %s",
				place, instruction(len(found), word), err, cure)
		}
		found = append(found, inst)
		at += inst.ByteSize
	}
	return found
}

// disassembler is MGPUSim's decoder, for the GPU that is simulated.
func disassembler(o options) *insts.Disassembler {
	made := insts.NewDisassembler()
	made.IsCDNA3 = o.gpu.mach == machGfx942
	return made
}

// decoder is MGPUSim's, and remembers what it has decoded: every wavefront comes upon the same
// instructions, again in each round of a loop.
type decoder struct {
	*insts.Disassembler
	known map[uint64]*insts.Inst // by the first two words
}

func newDecoder(o options) *decoder { return &decoder{disassembler(o), map[uint64]*insts.Inst{}} }

func (d *decoder) Decode(code []byte) (*insts.Inst, error) {
	if len(code) < 8 {
		return d.Disassembler.Decode(code)
	}
	words := binary.LittleEndian.Uint64(code)
	if inst, known := d.known[words]; known {
		return inst, nil
	}
	inst, err := d.Disassembler.Decode(code)
	if err == nil {
		d.known[words] = inst
	}
	return inst, err
}

// tryDecode is Decode with its panics (SDWA modifiers, formats without a decoder) as errors.
func tryDecode(d *insts.Disassembler, code []byte) (inst *insts.Inst, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("unknown format or modifier")
		}
	}()
	return d.Decode(code)
}

// codeObject finds kernel `name` in a linked code object, and tells its processor.
//
// MGPUSim's own loader is for unlinked ones: it adds the descriptor's entry offset, which is
// relative to the descriptor, to the start of .text. The layout of the descriptor is in
// https://llvm.org/docs/AMDGPUUsage.html#kernel-descriptor.
func codeObject(raw []byte, name string) (*insts.KernelCodeObject, byte, error) {
	file, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil || len(raw) < 52 {
		return nil, 0, errors.New("not an ELF file")
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, 0, errors.New("it has no symbols")
	}
	var code, descriptor []byte
	for _, symbol := range symbols {
		switch symbol.Name {
		case name:
			code = loaded(file, symbol.Value, symbol.Size)
		case name + ".kd":
			descriptor = loaded(file, symbol.Value, descriptorNbytes)
		}
	}
	if code == nil || descriptor == nil {
		return nil, 0, errors.New("it does not hold the kernel")
	}
	mach := raw[48]
	meta, err := readDescriptor(descriptor, mach)
	if err != nil {
		return nil, 0, err
	}
	for range fetchAhead / 4 {
		code = binary.LittleEndian.AppendUint32(code, sNop)
	}
	// The version decides where work-item ids are: V5 packs them into v0, as gfx90a and later do;
	// V3 has one register for each dimension.
	version := insts.CodeObjectVersion(insts.CodeObjectV3)
	if mach == machGfx942 {
		version = insts.CodeObjectV5
	}
	// The fetch unit stops at the symbol's end.
	symbol := &elf.Symbol{Name: name, Size: uint64(len(code))}
	return &insts.KernelCodeObject{
		KernelCodeObjectMeta: meta, Symbol: symbol, Data: code, Version: version,
	}, mach, nil
}

// loaded returns the bytes that lie at an address once the file is loaded, nil if there are none.
func loaded(file *elf.File, address, nbytes uint64) []byte {
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr <= p.Filesz &&
			nbytes <= p.Filesz-(address-p.Vaddr) {
			found := make([]byte, nbytes)
			if _, err := p.ReadAt(found, int64(address-p.Vaddr)); err == nil {
				return found
			}
		}
	}
	return nil
}

func readDescriptor(d []byte, mach byte) (*insts.KernelCodeObjectMeta, error) {
	le := binary.LittleEndian
	rsrc1, properties := le.Uint32(d[48:]), le.Uint16(d[56:])
	has := func(bit int) bool { return properties>>bit&1 != 0 }
	// Registers that MGPUSim would leave out, so that all after them would be in the wrong place.
	if has(2) || has(4) || has(5) || has(6) || le.Uint32(d[4:]) != 0 {
		return nil, errors.New("it needs scratch memory, a queue or a dispatch id, which MGPUSim lacks")
	}
	meta := &insts.KernelCodeObjectMeta{
		GroupSegmentByteSize:           le.Uint32(d[0:]),
		KernargSegmentByteSize:         uint64(le.Uint32(d[8:])),
		ComputePgmRsrc1:                rsrc1,
		ComputePgmRsrc2:                le.Uint32(d[52:]),
		ComputePgmRsrc3:                le.Uint32(d[44:]),
		EnableSgprPrivateSegmentBuffer: has(0),
		EnableSgprDispatchPtr:          has(1),
		EnableSgprKernargSegmentPtr:    has(3),
		WFSgprCount:                    uint16(rsrc1>>6&15+1) * 8,
		WIVgprCount:                    uint16(rsrc1&63+1) * 4,
	}
	if mach == machGfx942 { // larger granules of allocation
		meta.WFSgprCount = uint16(rsrc1>>6&15/2+1) * 16
		meta.WIVgprCount *= 2
	}
	return meta, nil
}
