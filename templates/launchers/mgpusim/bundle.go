// The bundle: workload.json and manifest.json, and the data file, read without HDF5.

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

type workload struct {
	Buffers []buffer
	Kernels []struct {
		Name      string
		Block     uint16                            // work-items in a work-group
		Group     []uint16                          // its extents; none: it has one dimension
		LDSNbytes uint32                            `json:"lds_nbytes"`
		Source    *struct{ Language, Entry string } // a user's own
	}
	Steps         []step
	Queues        []queued // of each step; none: all run in order
	ArenaNbytes   uint64   `json:"arena_nbytes"`
	OutputsOffset uint64   `json:"outputs_offset"`

	places map[string]int // of Buffers by name, once they are checked
}

// buffer is a tensor with its place in the arena, in bytes.
type buffer struct {
	Name   string
	Role   string
	Offset uint64
	Spec   struct {
		Shape []uint64
		DType string
	}
}

// step is one layer in one pass.
type step struct {
	Layer     string
	Direction string
	Reads     [][2]string // port, name of a buffer
	Writes    [][2]string
	Launches  []launch
}

type launch struct {
	Kernel  string
	Grid    [3]uint32 // work-groups
	Args    []string  // names of buffers
	Offsets []uint64  // bytes into each of them; none: all are 0

	area *area // of a workload with kernels of a user
}

// area is the arguments of a launch as the kernel's metadata lays them out.
type area struct {
	Content  []byte
	Pointers [][2]uint64 // place in the content, offset in the arena
}

// addAreas reads the arguments of all launches, if the workload has kernels of a user.
func (b *bundle) addAreas() {
	const file = target + "/kernels/arguments.json"
	if _, there := b.Manifest.Files[file]; !there {
		return
	}
	var areas []area
	if err := json.Unmarshal(b.read(file), &areas); err != nil {
		fail(exitDamaged, "%s: damaged (%v); build the bundle again", file, err)
	}
	for _, s := range b.Workload.Steps {
		for i := range s.Launches {
			if len(areas) == 0 {
				fail(exitDamaged, "%s: fewer than the launches; build the bundle again", file)
			}
			for _, each := range areas[0].Pointers {
				if each[0]+8 > uint64(len(areas[0].Content)) || each[1] >= b.Workload.ArenaNbytes {
					fail(exitDamaged, "%s: an impossible address; build the bundle again", file)
				}
			}
			s.Launches[i].area = &areas[0]
			areas = areas[1:]
		}
	}
}

// offset is how many bytes into its buffer an argument points.
func (l *launch) offset(at int) uint64 {
	if len(l.Offsets) == 0 {
		return 0
	}
	return l.Offsets[at]
}

type manifest struct {
	Data    struct{ ID string }
	Files   map[string]string // path in the bundle -> SHA-256
	Targets map[string]struct {
		Arch     string
		Legalise bool
	}
}

type bundle struct {
	path     string
	Workload workload
	Manifest manifest
}

func readBundle(path string) *bundle {
	b := &bundle{path: path}
	raw, err := os.ReadFile(filepath.Join(path, "manifest.json"))
	if err != nil {
		fail(exitNoData, "manifest.json: cannot be read (%v); build the bundle again", reason(err))
	}
	if err := json.Unmarshal(raw, &b.Manifest); err != nil {
		fail(exitDamaged, "manifest.json: damaged (%v); build the bundle again", err)
	}
	if err := json.Unmarshal(b.read("workload.json"), &b.Workload); err != nil {
		fail(exitDamaged, "workload.json: damaged (%v); build the bundle again", err)
	}
	b.Workload.check()
	b.addAreas()
	return b
}

// read returns a file that must be what was built.
func (b *bundle) read(name string) []byte {
	raw, err := os.ReadFile(filepath.Join(b.path, filepath.FromSlash(name)))
	if err != nil {
		fail(exitNoData, "%s: cannot be read (%v); build the bundle again", name, reason(err))
	}
	digest := sha256.Sum256(raw)
	if hex.EncodeToString(digest[:]) != b.Manifest.Files[name] {
		fail(exitDamaged, "%s: changed since it was built; build the bundle again", name)
	}
	return raw
}

// check makes sure of what the rest of the program takes for granted.
func (w *workload) check() {
	if w.OutputsOffset > w.ArenaNbytes || w.ArenaNbytes == 0 {
		damaged("impossible size", "the arena")
	}
	w.places = make(map[string]int, len(w.Buffers))
	for i := range w.Buffers {
		w.places[w.Buffers[i].Name] = i
		if b := &w.Buffers[i]; b.Offset > w.ArenaNbytes || b.nbytes() > w.ArenaNbytes-b.Offset {
			damaged("impossible place", b.Name)
		}
	}
	if len(w.Queues) > 0 && len(w.Queues) != len(w.Steps) {
		damaged("not a queue for each step", "the queues")
	}
	for at, q := range w.Queues {
		if q.Queue < 0 || q.Queue >= mostQueues || len(q.After) > 0 && slices.Max(q.After) >= at ||
			len(q.After) > 0 && slices.Min(q.After) < 0 {
			damaged("impossible queue", w.Steps[at].Layer)
		}
	}
	for _, s := range w.Steps {
		for _, l := range s.Launches {
			w.checkLaunch(l)
		}
	}
}

func (w *workload) checkLaunch(l launch) {
	if l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[2] == 0 || w.block(l.Kernel) == 0 {
		damaged("empty grid or unknown kernel", l.Kernel)
	}
	if len(l.Offsets) != 0 && len(l.Offsets) != len(l.Args) {
		damaged("not an offset for each argument", l.Kernel)
	}
	for at, arg := range l.Args {
		if b := w.buffer(arg); b == nil || l.offset(at) >= b.nbytes() {
			damaged("unknown argument", arg)
		}
	}
}

func damaged(fact string, name string) {
	fail(exitDamaged, "workload.json: %s of %q; build the bundle again", fact, name)
}

func (w *workload) buffer(name string) *buffer {
	if at, known := w.places[name]; known {
		return &w.Buffers[at]
	}
	return nil
}

// block returns the work-group size of a kernel, 0 if there is no such kernel.
func (w *workload) block(kernel string) uint16 {
	for _, k := range w.Kernels {
		if k.Name == kernel {
			return k.Block
		}
	}
	return 0
}

// place names a kernel and the first step that launches it, to begin an error message.
func (w *workload) place(kernel string) string {
	for _, s := range w.Steps {
		for _, l := range s.Launches {
			if l.Kernel == kernel {
				return kernelPlace(kernel, s)
			}
		}
	}
	return fmt.Sprintf("kernel %s: ", kernel)
}

func kernelPlace(kernel string, s step) string {
	return fmt.Sprintf("kernel %s (layer %s, %s): ", kernel, strconv.Quote(s.Layer), s.Direction)
}

func (w *workload) inputs() []buffer {
	var found []buffer
	for _, b := range w.Buffers {
		if b.Role == "input" {
			found = append(found, b)
		}
	}
	return found
}

var digits = regexp.MustCompile("[0-9]+")

// nbytes is the size of the tensor in memory. A type's name has its bits; elements narrower than a
// word are filled up to fours.
func (b *buffer) nbytes() uint64 {
	size := uint64(1)
	for _, extent := range b.Spec.Shape {
		if extent != 0 && size > 1<<45/extent {
			return 1 << 48 // larger than any arena
		}
		size *= extent
	}
	bits, err := strconv.ParseUint(digits.FindString(b.Spec.DType), 10, 8)
	if err != nil || bits < 8 {
		fail(exitDataSize, "workload.json: %q is not a type of elements; build the bundle again", b.Spec.DType)
	}
	if bits < 32 {
		size = (size + 3) / 4 * 4
	}
	return size * bits / 8
}

// The start of data.h5, in what HDF5 calls the user block: where each dataset lies. Entries are in
// the order of the workload's inputs; one more at the end is the canary pattern.
type dataHeader struct {
	Magic      [8]byte
	ID         [32]byte // what the file was made from
	FileNbytes uint64
	Count      uint64
}

type dataEntry struct{ Offset, Nbytes uint64 } // from the start of the file

type dataFile struct {
	file    *os.File
	entries []dataEntry
	canary  uint32 // what memory holds before a kernel writes it
}

func openData(b *bundle) *dataFile {
	file, err := os.Open(filepath.Join(b.path, "data.h5"))
	if err != nil {
		fail(exitNoData, "data.h5: cannot be read (%v); build the bundle again", reason(err))
	}
	var head dataHeader
	if binary.Read(file, binary.LittleEndian, &head) != nil || string(head.Magic[:]) != "simgenD1" {
		fail(exitDataSize, "data.h5: not a simgen data file; build the bundle again")
	}
	if info, err := file.Stat(); err != nil || uint64(info.Size()) != head.FileNbytes {
		fail(exitDataSize, "data.h5: not as long as its header says; build the bundle again")
	}
	if hex.EncodeToString(head.ID[:]) != b.Manifest.Data.ID {
		fail(exitDataID, "data.h5: holds the data of another workload; build the bundle again")
	}
	inputs := b.Workload.inputs()
	entries := make([]dataEntry, len(inputs)+1)
	if head.Count != uint64(len(entries)) || binary.Read(file, binary.LittleEndian, entries) != nil {
		fail(exitDataSize, "data.h5: does not hold the workload's %d inputs; build the bundle again",
			len(inputs))
	}
	for i, input := range inputs {
		if entries[i].Nbytes != input.nbytes() {
			fail(exitDataSize, "data.h5: %q has another size; build the bundle again", input.Name)
		}
	}
	d := &dataFile{file: file, entries: entries}
	canary := make([]byte, 4)
	if err := d.readAt(canary, entries[len(inputs)].Offset); err != nil {
		fail(exitDataSize, "data.h5: holds no canary; build the bundle again")
	}
	d.canary = binary.LittleEndian.Uint32(canary)
	return d
}

func (d *dataFile) readAt(to []byte, offset uint64) error {
	_, err := io.ReadFull(io.NewSectionReader(d.file, int64(offset), int64(len(to))), to)
	return err
}

// canaries returns nbytes of canary.
func (d *dataFile) canaries(nbytes uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, d.canary), int((nbytes+3)/4))[:nbytes]
}

// reason is an error of the operating system without the path, which the message has already.
func reason(err error) error {
	if path, ok := err.(*os.PathError); ok {
		return path.Err
	}
	return err
}
