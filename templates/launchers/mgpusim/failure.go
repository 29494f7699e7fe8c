// How a run ends that cannot go on: one line on stderr, and an exit code for the class of the error.

package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/sarchlab/mgpusim/v4/amd/insts"
	"github.com/tebeka/atexit"
)

// Exit codes. The first digit is simgen's own code for the class of error.
const (
	exitUsage     = 20
	exitNoData    = 31 // a file of the bundle cannot be read
	exitNoOutput  = 32 // the results cannot be written
	exitNoMemory  = 33
	exitRefused   = 40 // the bundle does not fit the simulator
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
	layer   string
	pass    string
	suspect func() *insts.Inst // the instruction that a wavefront is in the middle of, or nil
}

var running current

func (c current) place() string {
	if c.kernel == nil {
		return ""
	}
	return fmt.Sprintf("kernel %s (layer %s, %s): ", c.kernel.name, strconv.Quote(c.layer), c.pass)
}

// catchPanics turns a panic of the simulator into an error message. MGPUSim's driver recovers
// panics of its engine, logs them, prints the stack and leaves through atexit.
func catchPanics() {
	last := &lastPanic{}
	log.SetFlags(0)
	log.SetOutput(io.MultiWriter(os.Stderr, last))
	atexit.Register(func() { explain(last.text) })
}

// lastPanic keeps what the driver logged of a panic.
type lastPanic struct{ text string }

func (l *lastPanic) Write(line []byte) (int, error) {
	if text, found := strings.CutPrefix(string(line), "Panic: "); found {
		l.text = strings.TrimSpace(text)
	}
	return len(line), nil
}

// What a panic says -> what it means and what to do.
var meanings = []struct {
	pattern *regexp.Regexp
	code    int
	meaning string
}{
	{regexp.MustCompile(`page not found|translation not found|beyond the storage capacity`), exitKernel,
		"touched an address that is not mapped; find out which with: " +
			"simgen build --target host --sanitize"},
	{regexp.MustCompile(`exceeds LDS size|slice bounds out of range|index out of range`), exitKernel,
		"accessed memory outside of its LDS or of a register file; find out which with: " +
			"simgen build --target host --sanitize"},
	{regexp.MustCompile(`not all wavefronts at barrier`), exitKernel,
		"a wavefront ended before a barrier that others wait at, which MGPUSim does not take; " +
			"let every wavefront of a work-group reach every barrier"},
}

// Panics about an instruction: they name its format and opcode, or fail inside of its execution.
var (
	unimplemented = regexp.MustCompile(`[Oo]pcode +(0x)?([0-9A-Fa-f]+) for (?:format )?(\w+)`)
	execution     = regexp.MustCompile(
		`not implemented|not supported|nil pointer|non-register|not find the instruction|SDWA|never`)
)

func explain(text string) {
	for _, m := range meanings {
		if m.pattern.MatchString(text) {
			meaning := m.meaning
			if running.kernel != nil && !running.kernel.legalised {
				meaning += ", or build the bundle again without --no-legalise"
			}
			fail(m.code, "%s%s (%s)", running.place(), meaning, text)
		}
	}
	if running.kernel != nil && (unimplemented.MatchString(text) || execution.MatchString(text)) {
		if name := culprit(text); name != "" {
			fail(exitSimulator, "%sMGPUSim cannot execute %s (%s); %s", running.place(), name, text,
				running.kernel.cure)
		}
	}
	fail(exitSimulator, "%sMGPUSim panicked (%s); read the log for where", running.place(), text)
}

// culprit names the instruction that a panic is about, "" if nothing tells.
func culprit(text string) string {
	if found := unimplemented.FindStringSubmatch(text); found != nil {
		base := 10
		if found[1] != "" {
			base = 16
		}
		opcode, err := strconv.ParseUint(found[2], base, 16)
		for _, inst := range running.kernel.insts {
			if err == nil && uint64(inst.Opcode) == opcode && strings.EqualFold(inst.FormatName, found[3]) {
				return inst.InstName
			}
		}
	}
	if inst := running.suspect(); inst != nil {
		return inst.InstName
	}
	return ""
}
