// What finished steps leave, so that a run that is ended can be continued and the steps of a part of
// the workload can be run by themselves. simgen/tensors/state_file.py describes the file.

package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"os"
)

const (
	toRun    = 0 // marks of steps
	finished = 1
	given    = 3 // not run, but read from
	filled   = 4 // to be run in part, over what is there

	stateMagic = "simgenS1"
	marksAt    = 64
	page       = 4096
)

// state is the file of a run. A step's mark is written after its tensors: whatever ends the run, the
// tensors of marked steps are whole.
type state struct {
	file   *os.File // nil: there is none
	keep   bool     // what steps leave
	marks  []byte   // of each step, before the run
	offset uint64   // in the arena, of the first tensor
	head   uint64   // bytes before it in the file
}

// openState opens the state of a run that is to be continued, or begins one. There is none where one
// step is all, where steps of a share leave other tensors than those of the whole workload, and where
// a run begins that keeps nothing.
func openState(path string, b *bundle, s *sharding, keep bool) *state {
	w := &b.Workload
	st := &state{keep: keep, marks: make([]byte, len(w.Steps)), offset: w.ArenaNbytes}
	if _, err := os.Stat(path); err != nil && !keep {
		return st
	}
	for _, step := range w.Steps {
		for _, write := range step.Writes {
			whole, share := w.buffer(write[1]), s.Workload.buffer(write[1])
			if whole == nil || share == nil || !share.isOf(whole, s.GPUs) {
				return st
			}
			st.offset = min(st.offset, whole.Offset)
		}
	}
	if len(w.Steps) < 2 || st.offset == w.ArenaNbytes {
		return st
	}
	st.head = (marksAt + uint64(len(w.Steps)) + page - 1) / page * page
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		fail(exitNoOutput, "state.bin: cannot be made (%v); check the folder and its permissions", reason(err))
	}
	st.file = file
	id, _ := hex.DecodeString(b.Manifest.Data.ID)
	want := append([]byte(stateMagic), id...)
	head := make([]byte, marksAt+len(w.Steps))
	switch n, _ := io.ReadFull(file, head); {
	case n == 0:
		copy(head, want)
		st.put(head, 0)
	case n < len(head) || !bytes.HasPrefix(head, want):
		fail(exitDamaged, "state.bin: not the state of a run of this bundle; run it without --resume")
	}
	copy(st.marks, head[marksAt:])
	return st
}

func (st *state) put(bytes []byte, at uint64) {
	if _, err := st.file.WriteAt(bytes, int64(at)); err != nil {
		fail(exitNoOutput, "state.bin: cannot be written (%v); check the space on the disk", reason(err))
	}
}

// toDo tells whether a step with this mark is run.
func toDo(mark byte) bool { return mark == toRun || mark == filled }

// place is where a tensor lies in the file.
func (st *state) place(b *buffer) uint64 { return st.head + b.Offset - st.offset }

// restore gives each GPU its share of the tensors of steps that are not run, with the bytes behind
// them.
func (m *machine) restore(w *workload, s *sharding, st *state) {
	for at, step := range w.Steps {
		if mark := st.marks[at]; mark != finished && mark != given && mark != filled {
			continue
		}
		for _, write := range step.Writes {
			whole, share := w.buffer(write[1]), s.Workload.buffer(write[1])
			for i := range m.gpus {
				from, _ := rows(whole, share, i)
				m.write(&m.gpus[i], share.Offset, share.nbytes(), st.reader(st.place(whole)+from))
				behind := st.reader(st.place(whole) + whole.nbytes())
				m.write(&m.gpus[i], share.Offset+share.nbytes(), guard, behind)
			}
		}
	}
}

func (st *state) reader(start uint64) func(part []byte, done uint64) {
	return func(part []byte, done uint64) {
		if _, err := st.file.ReadAt(part, int64(start+done)); err != nil {
			fail(exitDamaged, "state.bin: lacks a tensor of a finished layer (%v); run it without --resume", err)
		}
	}
}

// leave keeps what a step has just written.
func (m *machine) leave(w *workload, s *sharding, st *state, at int, data *dataFile) {
	if st.file == nil || !st.keep {
		return
	}
	for _, write := range w.Steps[at].Writes {
		whole := w.buffer(write[1])
		out := bufio.NewWriterSize(io.NewOffsetWriter(st.file, int64(st.place(whole))), 1<<20)
		m.collect(out, whole, s.Workload.buffer(write[1]), data)
		if err := out.Flush(); err != nil {
			fail(exitNoOutput, "state.bin: cannot be written (%v); check the space on the disk", reason(err))
		}
	}
	st.put([]byte{finished}, marksAt+uint64(at))
}
