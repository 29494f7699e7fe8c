// Runs the DNN kernels that come with MGPUSim, with their own host code, on the machine that the
// mgpusim target of simgen builds.
//
//	PROGRAM peers -mode emu|timing -gpu mi300a|r9nano -o LAUNCHES.csv NAME SIZE...
//
// run.py builds it into the target's own runner, so that machine and counters are the same by
// construction. It ends with "right" or "WRONG" on stdout, from MGPUSim's own check or its own
// implementation of the operation on the CPU.

package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand"
	"os"
	"strconv"

	"github.com/sarchlab/akita/v4/tracing"
	"github.com/sarchlab/mgpusim/v4/amd/arch"
	"github.com/sarchlab/mgpusim/v4/amd/benchmarks/amdappsdk/matrixmultiplication"
	"github.com/sarchlab/mgpusim/v4/amd/benchmarks/dnn/gputensor"
	"github.com/sarchlab/mgpusim/v4/amd/benchmarks/dnn/layer_benchmarks/relu"
	"github.com/sarchlab/mgpusim/v4/amd/benchmarks/dnn/layers"
	"github.com/sarchlab/mgpusim/v4/amd/benchmarks/dnn/tensor"
	"github.com/sarchlab/mgpusim/v4/amd/driver"
)

// Of the largest value: float32 sums of some thousand products.
const closeEnough = 1e-5

// peer is one of MGPUSim's operations: its sizes, and how it runs and checks itself.
type peer struct {
	count int // of sizes
	sizes string
	run   func(m peerMachine, size []int) bool
}

var peers = map[string]peer{
	"relu":          {1, "ELEMENTS", runReLU},
	"relu_backward": {1, "ELEMENTS", runReLUBackward},
	"softmax":       {2, "N C", runSoftmax},
	"maxpool":       {7, "N C H W KERNEL PAD STRIDE", runMaxPool},
	"gemm":          {3, "M N K", runGEMM},
	"matmul":        {3, "M N K, multiples of 32", runMatrixMultiplication},
	"im2col":        {7, "N C H W KERNEL PAD STRIDE", runIm2Col},
	"conv":          {8, "N C H W FILTERS KERNEL PAD STRIDE", runConvolution},
}

// peerMachine is what MGPUSim's host code takes.
type peerMachine struct {
	arch   arch.Type
	driver *driver.Driver
}

func init() {
	if len(os.Args) > 1 && os.Args[1] == "peers" {
		runPeers(os.Args[2:])
		os.Exit(0)
	}
}

func runPeers(words []string) {
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	mode := flags.String("mode", "timing", "emu or timing")
	gpu := flags.String("gpu", "mi300a", "mi300a or r9nano")
	output := flags.String("o", "launches.csv", "what was counted of each launch")
	flags.Parse(words)
	log.SetFlags(0) // what MGPUSim logs of a panic begins with "Panic: "
	chosen, size := parsePeer(flags.Args())
	o := options{timing: *mode == "timing", gpu: gpuModels[*gpu], hardware: newHardware(*gpu, ""), gpus: 1}
	m := newMachine(o, 4096)
	l := &peerLaunches{recorder: m.recorder}
	tracing.CollectTrace(m.driver, l)
	verdict := "right"
	made := arch.GCN3
	if o.gpu.mach == machGfx942 {
		made = arch.CDNA3
	}
	if !chosen.run(peerMachine{made, m.driver}, size) {
		verdict = "WRONG"
	}
	newTable(*output, &sharding{}, o.timing, false).add(l.rows)
	fmt.Println(verdict)
}

func parsePeer(words []string) (peer, []int) {
	if len(words) == 0 {
		fail(exitUsage, "no operation given")
	}
	chosen, known := peers[words[0]]
	if !known || len(words) != chosen.count+1 {
		fail(exitUsage, "%q is not an operation with its sizes (%s)", words, chosen.sizes)
	}
	size := make([]int, chosen.count)
	for i, text := range words[1:] {
		var err error
		if size[i], err = strconv.Atoi(text); err != nil || size[i] < 0 {
			fail(exitUsage, "%s takes %s", words[0], chosen.sizes)
		}
	}
	return chosen, size
}

// peerLaunches keeps a row of each launch: it hears of a launch's end after the recorder, and before
// the host code does, which copies results from the GPU next.
type peerLaunches struct {
	ignore
	recorder *recorder
	running  string
	rows     []row
}

func (l *peerLaunches) StartTask(task tracing.Task) {
	if task.What == "*driver.LaunchKernelCommand" {
		l.running = task.ID
	}
}

func (l *peerLaunches) EndTask(task tracing.Task) {
	if task.ID == l.running {
		l.rows = append(l.rows, l.recorder.row(fmt.Sprintf("launch%d", len(l.rows)), 0, 0))
		l.recorder.reset()
	}
}

func (m peerMachine) operator() *gputensor.GPUOperator {
	context := m.driver.Init()
	m.driver.SelectGPU(context, 1)
	made := gputensor.NewGPUOperator(m.driver, context)
	made.Arch = m.arch
	return made
}

func runReLU(m peerMachine, size []int) bool {
	b := relu.NewBenchmark(m.driver)
	b.Arch, b.Length = m.arch, size[0]
	b.SelectGPU([]int{1})
	b.Run()
	return !panics(b.Verify)
}

func runReLUBackward(m peerMachine, size []int) bool {
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		return to.ReluBackward(random(to, size), random(to, size))
	})
}

func runSoftmax(m peerMachine, size []int) bool {
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		return to.Softmax(random(to, size))
	})
}

func runMatrixMultiplication(m peerMachine, size []int) bool {
	b := matrixmultiplication.NewBenchmark(m.driver)
	b.Arch, b.Y, b.Z, b.X = m.arch, uint32(size[0]), uint32(size[1]), uint32(size[2])
	b.SelectGPU([]int{1})
	b.Run()
	var cpu matrixmultiplication.CPUMatrixMultiplier // its Verify looks at the first row only
	return equal(widen(cpu.Multiply(b.MatrixA, b.MatrixB).Data), widen(b.MatrixC.Data))
}

func runMaxPool(m peerMachine, size []int) bool {
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		y, _ := to.MaxPoolingForward(random(to, size[:4]), twice(size[4]), twice(size[5]), twice(size[6]))
		return y
	})
}

func runIm2Col(m peerMachine, size []int) bool {
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		return to.Im2Col(random(to, size[:4]), twice(size[4]), twice(size[5]), twice(size[6]), twice(1))
	})
}

func runGEMM(m peerMachine, size []int) bool {
	rows, columns, depth := size[0], size[1], size[2]
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		a, b := random(to, []int{rows, depth}), random(to, []int{depth, columns})
		return to.Gemm(false, false, 1, 0, a, b, to.Zeros([]int{rows, columns}))
	})
}

// runConvolution runs their convolution: im2col, repetition and transposition of the bias, matrix
// multiplication, and transposition of the product.
func runConvolution(m peerMachine, size []int) bool {
	channels, filters, kernel := size[1], size[4], size[5]
	return compare(m, func(to tensor.Operator) tensor.Tensor {
		layer := layers.NewConv2D(0, to, size[1:4], []int{filters, channels, kernel, kernel},
			twice(size[7]), twice(size[6]))
		to.Init(layer.Parameters(), values(filters*channels*kernel*kernel+filters))
		return layer.Forward(random(to, size[:4]))
	})
}

// compare tells whether an operation has the same result on the GPU and on the CPU.
func compare(m peerMachine, operation func(to tensor.Operator) tensor.Tensor) bool {
	found := operation(m.operator()).Vector()
	return equal(operation(&tensor.CPUOperator{}).Vector(), found)
}

func equal(expected, found []float64) bool {
	largest, worst := 0.0, 0.0
	for i := range expected {
		largest = max(largest, math.Abs(expected[i]))
		worst = max(worst, math.Abs(expected[i]-found[i]))
	}
	return worst <= closeEnough*largest // false for NaN, too
}

// random is a tensor of the same values for both operators.
func random(to tensor.Operator, size []int) tensor.Tensor {
	count := 1
	for _, extent := range size {
		count *= extent
	}
	return to.CreateWithData(values(count), size, "")
}

func values(count int) []float64 {
	source := rand.New(rand.NewSource(int64(count)))
	made := make([]float64, count)
	for i := range made {
		made[i] = float64(float32(source.Float64()*2 - 1))
	}
	return made
}

func widen(from []float32) []float64 {
	made := make([]float64, len(from))
	for i, value := range from {
		made[i] = float64(value)
	}
	return made
}

func twice(extent int) []int { return []int{extent, extent} }

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return
}
