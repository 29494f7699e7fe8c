// How a run ends that cannot go on: one line on stderr, and an exit code for the class of the error.

package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/tebeka/atexit"
)

// Exit codes. The first digit is simgen's own code for the class of error.
const (
	exitUsage     = 20
	exitNoData    = 31 // a file of the bundle cannot be read
	exitNoOutput  = 32 // the results cannot be written
	exitRefused   = 40 // the bundle does not fit the simulator
	exitNoMemory  = 41 // nor this machine
	exitSimulator = 50 // the simulator died
	exitTimeout   = 51
	exitKernel    = 52 // a kernel did what it must not do
	exitDataSize  = 70
	exitDataID    = 71
	exitDamaged   = 72 // a file of the bundle is not what was built
)

var ending sync.Mutex // never unlocked: the first error ends the run

// fail ends the run. The message is "place: fact; cure".
func fail(code int, format string, args ...any) {
	ending.Lock()
	message := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(os.Stderr, "simgen: error: %s: %s\n", target, message)
	os.Exit(code)
}

// current is the launch that the simulator works on.
type current struct {
	kernel  *kernel
	step    step
	suspect func() (at uint64, known bool) // byte of the kernel at which a wavefront is
}

var running current

func (c current) place() string {
	if c.kernel == nil {
		return ""
	}
	return kernelPlace(c.kernel.name, c.step)
}

// catchPanics turns a panic of the simulator into an error message. MGPUSim's driver recovers
// panics of its engine, logs them, prints the stack and leaves through atexit. The function that it
// returns is to be deferred: it does the same for a panic outside of the engine.
func catchPanics() func() {
	last := &lastPanic{}
	log.SetFlags(0)
	log.SetOutput(io.MultiWriter(os.Stderr, last))
	atexit.Register(func() { explain(last.text, last.stack) })
	return func() {
		if r := recover(); r != nil {
			debug.PrintStack()
			explain(fmt.Sprint(r), string(debug.Stack()))
		}
	}
}

// lastPanic keeps what the driver logged of a panic, and the stack, which is there until it has.
type lastPanic struct{ text, stack string }

func (l *lastPanic) Write(line []byte) (int, error) {
	if text, found := strings.CutPrefix(string(line), "Panic: "); found {
		l.text, l.stack = strings.TrimSpace(text), string(debug.Stack())
	}
	return len(line), nil
}

// beyond is what Go says of an index: a kernel's, if an instruction was being executed, or a mistake of
// the simulator or of this program.
var beyond = regexp.MustCompile(`slice bounds out of range|index out of range`)

const executing = "main.(*fast).Run("

// What a panic says -> what it means and what to do.
var meanings = []struct {
	pattern    *regexp.Regexp
	fact, cure string
}{
	{regexp.MustCompile(`page not found|translation not found|beyond the storage capacity`),
		"touched an address that is not mapped",
		"find out which with: simgen build --target host --sanitize"},
	{regexp.MustCompile(`exceeds LDS size`),
		"accessed memory outside of its LDS",
		"find out which with: simgen build --target host --sanitize"},
	{beyond,
		"accessed memory outside of its LDS or of a register file",
		"find out which with: simgen build --target host --sanitize"},
	{regexp.MustCompile(`Failed to decode instruction at PC=.*not find the instruction format`),
		"it no longer has its code: a store of a kernel went beyond its tensors",
		"find out which with: simgen build --target host --sanitize"},
	{regexp.MustCompile(`not all wavefronts at barrier`),
		"a wavefront ended before a barrier that others wait at, which MGPUSim does not take",
		"let every wavefront of a work-group reach every barrier"},
}

// Panics about an instruction: they name its format and opcode, or fail inside of its execution.
var (
	unimplemented = regexp.MustCompile(`[Oo]pcode +(0x)?([0-9A-Fa-f]+) for (?:format )?(\w+)`)
	execution     = regexp.MustCompile(
		`not implemented|not supported|nil pointer|non-register|not find the instruction|SDWA|never`)
)

// explain ends the run. `simgen run` adds the line of the source to "instruction NUMBER, NAME".
func explain(text, stack string) {
	text = strings.TrimSpace(text)
	found := culprit(text)
	for _, m := range meanings {
		if m.pattern.MatchString(text) && (m.pattern != beyond || strings.Contains(stack, executing)) {
			cure := m.cure
			if running.kernel != nil && !running.kernel.legalised {
				cure += ", or build the bundle again without --no-legalise"
			}
			if found != "" {
				found = " in " + found
			}
			fail(exitKernel, "%s%s%s (%s); %s", running.place(), m.fact, found, text, cure)
		}
	}
	if found != "" && (unimplemented.MatchString(text) || execution.MatchString(text)) {
		fail(exitSimulator, "%sMGPUSim cannot execute %s (%s); %s", running.place(), found, text,
			running.kernel.cure)
	}
	cure := "read the log for where"
	if strings.Contains(text, "earlier than current time") {
		// Akita takes a time for a tick of a clock that lies less than a twentieth of a cycle before it.
		cure = "give a --gpu-clock whose ratio to 1 GHz is of whole numbers below 20, such as 1.5GHz or 875MHz"
	}
	fail(exitSimulator, "%sMGPUSim panicked (%s); %s", running.place(), text, cure)
}

// culprit tells which instruction a panic is about, "" if nothing tells: the one that a wavefront
// is in the middle of, or the first one with the opcode that the panic names.
func culprit(text string) string {
	k := running.kernel
	if k == nil {
		return ""
	}
	if byteAt, known := running.suspect(); known {
		start := uint64(0)
		for i, inst := range k.insts {
			if start == byteAt {
				return instruction(i, inst.InstName)
			}
			start += uint64(inst.ByteSize)
		}
	}
	if found := unimplemented.FindStringSubmatch(text); found != nil {
		base := 10
		if found[1] != "" {
			base = 16
		}
		opcode, err := strconv.ParseUint(found[2], base, 16)
		for i, inst := range k.insts {
			if err == nil && uint64(inst.Opcode) == opcode && strings.EqualFold(inst.FormatName, found[3]) {
				return instruction(i, inst.InstName)
			}
		}
	}
	return ""
}

// instruction names the instruction that comes after `before` others in its kernel.
func instruction(before int, name string) string {
	return fmt.Sprintf("instruction %d, %s", before, name)
}
