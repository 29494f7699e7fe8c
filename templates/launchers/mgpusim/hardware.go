// What a simulated GPU has, and the options that change it.

package main

import (
	"strconv"
	"strings"

	"github.com/sarchlab/akita/v4/sim"
	"github.com/sarchlab/mgpusim/v4/amd/emu"
	"github.com/sarchlab/mgpusim/v4/amd/emu/cdna3"
)

const (
	simds        = 4 // of a compute unit
	lineNbytes   = 64
	ldsGranule   = 256      // bytes, in which LDS is given to work-groups
	registerUnit = 4        // vector registers, in which they are given to wavefronts
	scalarNbytes = 16 << 10 // of a cache of scalars
	kib          = 1 << 10
	mib          = 1 << 20
)

// hardware is a GPU of the timing model.
type hardware struct {
	units         int // compute units
	ofArray       int // of them in a shader array; they share the caches of scalars and instructions
	wavefronts    int // that a SIMD unit holds
	registers     int // vector registers of a SIMD unit, of 64 lanes
	lds           int // bytes of a compute unit
	l1            int // bytes of a compute unit's
	l1Ways        int
	l1Latency     int // cycles of a bank
	scalarWays    int // of the cache of scalars, which the units of a shader array share
	scalarLatency int
	codeLatency   int // of their cache of instructions
	l2            int // bytes of all banks
	l2Ways        int
	l2Latency     int // cycles of a bank
	banks         int // of L2, each with a memory controller
	dramLatency   int // cycles of a controller; of a bank's pipeline, where rows are modelled
	frequency     sim.Freq
	part          int // what it is of the GPU: 8 is an eighth
	topology      string

	fixed
}

// fixed is what differs between the models and is no option.
type fixed struct {
	alu          emu.ALUFactory
	rows         bool // whether memory has banks with rows, or answers all after the same time
	wide         bool // whether compute units have the wide path to L1, and a scoreboard
	l2Requests   int  // in a cycle
	l2MSHRs      int
	l2InFlight   int // fetches and evictions
	l2Directory  int // cycles
	pageSets     int // of the L2 TLB, of 64 ways
	first, later int // cycles that launches take before their first work-group
	after        int // cycles after the last one
	switching    int // cycles of the connection with the driver
	toHost       int // cycles of a copy
	toDevice     int
}

// models are those of samples/runner/timingconfig.
var models = map[string]hardware{
	"mi300a": {
		units: 120, ofArray: 6, wavefronts: 8, registers: 512, lds: 64 * kib, l1: 32 * kib, l1Latency: 7,
		l2: 32 * mib, l2Latency: 14, banks: 16, dramLatency: 5, frequency: 1700 * sim.MHz,
		fixed: fixed{
			alu:  func(s emu.StorageAccessor) emu.ALU { return newFast(cdna3.NewALU(s)) },
			rows: true, wide: true, l2Requests: 64, l2MSHRs: 512, l2InFlight: 512, l2Directory: 2, pageSets: 64,
			first: 5400, later: 1800, after: 1800, switching: 15, toHost: 150, toDevice: 250,
		},
	},
	"r9nano": {
		units: 64, ofArray: 4, wavefronts: 10, registers: 256, lds: 64 * kib, l1: 16 * kib, l1Latency: 20,
		l2: 2 * mib, l2Latency: 10, banks: 16, dramLatency: 100, frequency: 1 * sim.GHz,
		fixed: fixed{
			alu:        func(s emu.StorageAccessor) emu.ALU { return newFast(emu.NewALU(s)) },
			l2Requests: 16, l2MSHRs: 64, l2InFlight: 128, pageSets: gpuMemory >> log2Page / pageWays,
			after: 3600, switching: 140, toHost: 300, toDevice: 500,
		},
	},
}

// newHardware is the model of a GPU with the options of a list NAME=VALUE,... Names are those that
// gem5 has for the same.
func newHardware(gpu, list string) hardware {
	h := models[gpu]
	h.part, h.topology = 1, "pairs"
	h.l1Ways, h.l2Ways, h.scalarWays, h.scalarLatency, h.codeLatency = 4, 16, 4, 1, 1
	arrays := false
	for _, each := range strings.FieldsFunc(list, func(c rune) bool { return c == ',' }) {
		name, text, _ := strings.Cut(each, "=")
		counts := map[string]*int{
			"num_compute_units": &h.units, "cu_per_sa": &h.ofArray, "wfs_per_simd": &h.wavefronts,
			"vreg_file_size": &h.registers, "lds_size": &h.lds, "tcp_size": &h.l1, "tcp_latency": &h.l1Latency,
			"tcp_assoc": &h.l1Ways, "tcc_assoc": &h.l2Ways, "scalar_assoc": &h.scalarWays,
			"scalar_latency": &h.scalarLatency, "sqc_latency": &h.codeLatency,
			"tcc_size": &h.l2, "tcc_latency": &h.l2Latency, "num_tccs": &h.banks, "dram_latency": &h.dramLatency,
		}
		if name == "topology" {
			if topologies[text] == nil {
				fail(exitUsage, "topology is %q; known: full, pairs, star", text)
			}
			h.topology = text
			continue
		}
		value := quantity(name, text)
		if field, known := counts[name]; known {
			*field = int(value)
		} else if name == "gpu_clock" {
			h.frequency = sim.Freq(value)
		} else {
			fail(exitUsage, "runner: %s is not an option of the hardware; call it through run.sh", name)
		}
		arrays = arrays || name == "cu_per_sa"
	}
	if !arrays { // as many shader arrays as fit, of no more units than before
		for h.units%h.ofArray != 0 {
			h.ofArray--
		}
	}
	h.check()
	return h
}

// ofWhole is a part of this GPU for as large a part of a launch: fewer compute units, banks of L2 and
// controllers of memory, so that there are as many work-groups for each. The command processor, which
// serves one work-group after the other, has fewer of them to serve in the same time. All of L2 is
// there, because each part of a launch reads what all of them read.
func (h hardware) ofWhole(part int) hardware {
	if part < 2 {
		return h
	}
	if h.banks%part != 0 || h.units < part {
		fail(exitUsage, "runner: no GPU with %d compute units and %d banks has parts of 1/%d; call it through "+
			"simgen run", h.units, h.banks, part)
	}
	h.part, h.banks = part, h.banks/part
	h.units = (h.units + part/2) / part
	h.first = h.later // or each of the processor's dispatchers would have a first launch in each process
	for h.units%h.ofArray != 0 {
		h.ofArray--
	}
	return h
}

// check refuses what cannot be built.
func (h hardware) check() {
	if h.units%h.ofArray != 0 {
		fail(exitUsage, "num_compute_units is %d, no multiple of cu_per_sa (%d); change one of them", h.units, h.ofArray)
	}
	if h.banks&(h.banks-1) != 0 || h.banks > 64 {
		fail(exitUsage, "num_tccs is %d; write a power of two, up to 64", h.banks)
	}
	sizes := []struct {
		name        string
		size, least int // the size is a multiple of it
	}{
		{"lds_size", h.lds, ldsGranule},
		{"vreg_file_size", h.registers, registerUnit},
		{"tcp_size", h.l1, lineNbytes},
		{"tcc_size", h.l2, lineNbytes * h.banks},
	}
	for _, each := range sizes {
		if each.size%each.least != 0 || each.size == 0 {
			fail(exitUsage, "%s is %d; write a multiple of %d", each.name, each.size, each.least)
		}
	}
	caches := []struct {
		name, size   string
		nbytes, ways int
	}{
		{"tcp_assoc", "tcp_size", h.l1, h.l1Ways},
		{"tcc_assoc", "a bank of L2 (tcc_size / num_tccs)", h.l2 / h.banks, h.l2Ways},
		{"scalar_assoc", "the cache of scalars", scalarNbytes, h.scalarWays},
	}
	for _, each := range caches {
		if each.nbytes%(each.ways*lineNbytes) != 0 {
			fail(exitUsage, "%s is %d, and %s, of %d bytes, has no whole number of sets of so many lines of %d; change one of "+
				"them", each.name, each.ways, each.size, each.nbytes, lineNbytes)
		}
	}
}

// holds refuses a kernel of which no compute unit has room for a work-group: it would never start.
func (h hardware) holds(k *kernel) {
	wavefronts := (int(k.block) + wavefrontSize - 1) / wavefrontSize
	each := (wavefronts + simds - 1) / simds // on a SIMD unit
	registers := (int(k.object.WIVgprCount) + registerUnit - 1) / registerUnit * registerUnit
	needs := []struct {
		name       string
		need, have int
	}{
		{"wfs_per_simd", each, h.wavefronts},
		{"vreg_file_size", each * registers, h.registers},
		{"lds_size", int(k.object.GroupSegmentByteSize + k.lds), h.lds},
	}
	for _, n := range needs {
		if n.need > n.have {
			fail(exitRefused, "kernel %s: a work-group needs %s=%d, and the GPU has %d; give it that or more, or "+
				"build with --plan-for", k.name, n.name, n.need, n.have)
		}
	}
}

// quantity is a count, a size in bytes such as 16KiB, or a clock such as 1.5GHz.
func quantity(name, text string) float64 {
	digits := strings.TrimRight(text, "kKMGiBHz")
	value, err := strconv.ParseFloat(digits, 64)
	factor, known := map[string]float64{
		"": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": kib, "MiB": mib, "GiB": 1 << 30,
		"MHz": 1e6, "GHz": 1e9,
	}[text[len(digits):]]
	if err != nil || !known || value <= 0 || value*factor > 1<<40 {
		fail(exitUsage, "%s is %q; write a number, a size such as 16KiB or a clock such as 1.5GHz", name, text)
	}
	return value * factor
}
