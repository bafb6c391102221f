/* Goes through the objects that CPython's garbage collector tracks, a few at a time.
 *
 * gc.get_objects() holds the interpreter's lock until its whole list is made, changes the reference
 * count of every object, and its list holds tuples that other threads are still filling. Here a
 * walk rests after some objects: markers of ours stand in the collector's lists where it goes on.
 * Objects that are only counted are not changed at all.
 *
 * To read the next object takes as long as the memory needs to answer. So a walk goes on in several
 * places at once, between stations that the walk before has left.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector_lists.h"
#include "type_rows.h"
#include "referents.h"

#define CURSORS 12
#define CURSORS_IN_SEARCH 3     /* what the others' objects refer to would not stay in the cache */
#define MOST_STATIONS 64
#define SEGMENTS 48             /* about so many stations are in use */
#define FIRST_SPACING 8192      /* objects between stations, before their number is known */
#define LEAST_SPACING 1024
#define MOST_ADDRESSES 4096

/* The stations of the main interpreter; one walk at a time uses and moves them. */
enum { SPARE = 0, WAITS = 1, BEGUN = 2 };

static struct {
    PyObject *markers[MOST_STATIONS];
    char states[MOST_STATIONS];
    Py_ssize_t spacing;
    void *user;
    pid_t user_pid;        /* in a process that was forked during a walk, nobody goes on with it */
} stations;

/* One of the places at which a walk goes on. */
typedef struct {
    PyObject *marker;
    Header *at;            /* during a stretch: the last object that was taken, or the beginning */
    Py_ssize_t walked;     /* objects since the last station */
    PyObject *unfinished;  /* the object before the marker, if its referents were read in part */
    Py_ssize_t done;
    int is_active;
} Cursor;

typedef struct {
    Collector *collector;
    Cursor cursors[CURSORS];
    int generation;        /* the next to begin; those before are older */
    int active;            /* cursors */
    int waiting;           /* stations that nobody has begun at */
    Table table;
    Py_ssize_t count;
    uintptr_t addresses[MOST_ADDRESSES];
    size_t address_count, address_step, until_address;
    Search *search;        /* NULL if objects are only counted */
    Header *last_frozen;   /* at the beginning */
    int collects;          /* whether the program lets the collector run */
} Walk;

static const char *const WALK = "ramledger.heap_walk.walk";

/* Take the stations, if no other walk has them: those in a list wait to be begun at. */
static void
use_stations(Walk *walk)
{
    if ((stations.user != NULL && stations.user_pid == getpid()) ||
        PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        return;
    }
    stations.user = walk;
    stations.user_pid = getpid();
    for (int i = 0; i < MOST_STATIONS; i++) {
        if (stations.markers[i] == NULL) {
            stations.markers[i] = new_marker(STATION);
            if (stations.markers[i] == NULL) {
                PyErr_Clear();
            }
            stations.states[i] = SPARE;
        } else if (stations.states[i] != SPARE && is_frozen(walk->collector)) {
            PyObject_GC_UnTrack(stations.markers[i]); /* it may stand among frozen objects */
            stations.states[i] = SPARE;
        } else if (stations.states[i] != SPARE) {
            stations.states[i] = WAITS;
            walk->waiting++;
        }
    }
}

static void
leave_stations(Walk *walk)
{
    if (stations.user == walk) {
        Py_ssize_t spacing = walk->count / SEGMENTS;
        stations.spacing = spacing > LEAST_SPACING ? spacing : LEAST_SPACING;
        stations.user = NULL;
    }
}

static void
set_station(Header *behind)
{
    for (int i = 0; i < MOST_STATIONS; i++) {
        if (stations.states[i] == SPARE && stations.markers[i] != NULL) {
            PyObject_GC_Track(stations.markers[i]);
            move_behind(header_of(stations.markers[i]), behind);
            stations.states[i] = BEGUN;
            return;
        }
    }
}

/* Whether a walk ends a segment at this station. A short segment goes on if nobody has begun
 * behind the station, which becomes a spare one. */
static int
ends_at_station(Walk *walk, Cursor *cursor, PyObject *marker)
{
    if (stations.user != walk) {
        return 0;
    }
    for (int i = 0; i < MOST_STATIONS; i++) {
        if (stations.markers[i] != marker) {
            continue;
        }
        if (stations.states[i] == WAITS && cursor->walked < stations.spacing / 2) {
            PyObject_GC_UnTrack(marker);
            stations.states[i] = SPARE;
            walk->waiting--;
            return 0;
        }
        return 1;
    }
    return 0;
}

/* Let a cursor begin at a station or a generation; younger ones only after all older objects: so
 * an object that changes its generation meanwhile is met at most once. */
static void
begin_segment(Walk *walk, Cursor *cursor)
{
    if (walk->generation == 2 || (walk->waiting == 0 && walk->active == 0 && walk->generation >= 0)) {
        cursor->at = &walk->collector->generations[walk->generation--].head;
    } else if (walk->waiting > 0) {
        int i = 0;
        while (stations.states[i] != WAITS) {
            i++;
        }
        stations.states[i] = BEGUN;
        walk->waiting--;
        cursor->at = header_of(stations.markers[i]);
    } else {
        return;
    }
    cursor->walked = 0;
    cursor->is_active = 1;
    walk->active++;
}

static void
end_segment(Walk *walk, Cursor *cursor)
{
    cursor->is_active = 0;
    walk->active--;
}

/* What one call collects. */
typedef struct {
    PyObject *objects, *new_types, *rows, *others;
} Found;

static int
collect(Row *row, Found *found, PyObject *object)
{
    if (row->count++ == 0 && row->what == NEW &&
        PyList_Append(found->new_types, row->type) < 0) {
        return -1;
    }
    return row->what == WANT || row->what == NEW ? PyList_Append(found->objects, object) : 0;
}

/* Count one object, collect it if its type is wanted, and search it: 0, or -1 on an error. */
static int
take(Walk *walk, Found *found, Cursor *cursor, PyObject *object, Py_ssize_t most)
{
    if (Py_REFCNT(object) <= 0) { /* it is being freed, by code that has left it in the list */
        return 0;
    }
    Row *row = row_of(&walk->table, (PyObject *)Py_TYPE(object));
    if (row == NULL || collect(row, found, object) < 0) {
        return -1;
    }
    walk->count++;
    if (--walk->until_address == 0) {
        walk->until_address = walk->address_step;
        if (walk->address_count < MOST_ADDRESSES) {
            walk->addresses[walk->address_count++] = (uintptr_t)object;
        }
    }
    if (walk->search == NULL) {
        return 0;
    }
    add_size(row, object);
    if (role_in(walk->search, row) == OPAQUE) {
        return 0;
    }
    if (row->role == NUMPY) {
        take_numpy(walk->search, row, object);
    }
    cursor->done = 0;
    if (!visit_all(walk->search, row->traverse, object, &cursor->done, most)) {
        cursor->unfinished = object;
    }
    return walk->search->error ? -1 : 0;
}

/* The object behind a cursor, past markers; NULL, and the cursor at rest, where its segment ends. */
static Header *
next_object(Walk *walk, Cursor *cursor)
{
    Header *node = following(cursor->at);
    while (!is_head(walk->collector, node) && is_marker(object_of(node))) {
        PyObject *marker = object_of(node);
        node = following(node);
        if (is_station(marker) && ends_at_station(walk, cursor, marker)) {
            end_segment(walk, cursor);
            return NULL;
        }
    }
    if (is_head(walk->collector, node)) {
        end_segment(walk, cursor);
        return NULL;
    }
    return node;
}

/* Let a cursor take its next object; 0, or -1 on an error. */
static int
step(Walk *walk, Found *found, Cursor *cursor, Py_ssize_t most)
{
    Header *node = next_object(walk, cursor);
    if (node == NULL) {
        return 0;
    }
    /* not among objects that will soon be old: a collection may bring them behind a station */
    if (stations.user == walk && ++cursor->walked >= stations.spacing &&
        (walk->generation == 1 || !walk->collects)) {
        set_station(preceding(node));
        cursor->walked = 0;
    }
    cursor->at = node;
    __builtin_prefetch(following(node));
    return take(walk, found, cursor, object_of(node), most);
}

/* Go on with an object whose referents were read in part. It may be gone: whatever is before the
 * marker now is in a list, and so alive. */
static void
resume(Walk *walk, Cursor *cursor, Py_ssize_t most)
{
    PyObject *object = cursor->unfinished;
    Header *marker = header_of(cursor->marker);
    Header *last = cursor->at == marker ? preceding(marker) : cursor->at;
    cursor->unfinished = NULL;
    if (object_of(last) == object && !is_head(walk->collector, last) && !is_marker(object) &&
        !visit_all(walk->search, traverse_of(object), object, &cursor->done, most)) {
        cursor->unfinished = object;
    }
}

/* Let each cursor take one object: how many did, or -1 on an error. */
static int
step_all(Walk *walk, Found *found, Py_ssize_t most)
{
    int active = 0, cursors = walk->search != NULL ? CURSORS_IN_SEARCH : CURSORS;
    for (int i = 0; i < cursors; i++) {
        Cursor *cursor = &walk->cursors[i];
        if (cursor->unfinished != NULL) {
            resume(walk, cursor, most);
            active++;
            continue;
        }
        if (!cursor->is_active) {
            begin_segment(walk, cursor);
        }
        if (cursor->is_active) {
            active++;
            if (step(walk, found, cursor, most) < 0) {
                return -1;
            }
        }
    }
    return active;
}

/* Whether the whole walk has ended: 1 or 0; -1 on an error. */
static int
walk_on(Walk *walk, Found *found, Py_ssize_t most)
{
    Search *search = walk->search;
    Py_ssize_t taken = 0;
    int active = 1, waits = 0;
    walk->collects = PyGC_Disable(); /* nobody else sees it: the lock is held all the time */
    for (int i = 0; i < CURSORS; i++) {
        walk->cursors[i].at = header_of(walk->cursors[i].marker);
    }
    if (search != NULL) {
        search->cost = 0;
        waits = !visit_hiding(search, most);
    }
    while (active > 0 && !waits && taken + (search ? search->cost : 0) < most) {
        active = step_all(walk, found, most);
        taken += active;
        waits = search != NULL && !visit_hiding(search, most);
    }
    for (int i = 0; i < CURSORS; i++) {
        Cursor *cursor = &walk->cursors[i];
        if (cursor->at != header_of(cursor->marker)) {
            move_behind(header_of(cursor->marker), cursor->at);
        }
    }
    if (walk->collects) {
        PyGC_Enable();
    }
    if (active < 0 || (search != NULL && search->error)) {
        return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
    }
    return active == 0 && !waits;
}

/* After a stretch: nothing is borrowed any longer, and the program's code may run. */
static int
rest(Search *search, Found *found)
{
    Objects before;
    hold_hiding(search, &before);
    let_go(&before);
    return describe_special(search, found->rows, found->others);
}

/* A list of ours that is not in the collector's lists while they are gone through. */
static PyObject *
hidden_list(void)
{
    PyObject *list = PyList_New(0);
    if (list != NULL) {
        PyObject_GC_UnTrack(list);
    }
    return list;
}

static PyObject *
shown(Found *found, int is_end)
{
    PyObject *lists[] = {found->objects, found->new_types, found->rows, found->others};
    for (int i = 0; i < 4; i++) {
        if (is_end < 0) {
            Py_XDECREF(lists[i]);
        } else {
            PyObject_GC_Track(lists[i]);
        }
    }
    return is_end < 0 ? NULL
                      : Py_BuildValue("(NNNNO)", lists[0], lists[1], lists[2], lists[3],
                                      is_end ? Py_True : Py_False);
}

static Walk *
walk_of(PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    for (int i = 0; walk != NULL && i < CURSORS; i++) {
        if (!is_linked(header_of(walk->cursors[i].marker))) {
            PyErr_SetString(PyExc_ValueError, "a marker is not tracked");
            return NULL;
        }
    }
    return walk;
}

PyDoc_STRVAR(go_on_doc, "go_on(walk, most) -> (objects, new_types, rows, others, is_end)\n\n"
             "Go through objects and referents, `most` in all. Collected are instances of wanted\n"
             "and of new types. `rows` describe arrays of numpy, `others` are other arrays.");

static PyObject *
go_on(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "On", &capsule, &most)) {
        return NULL;
    }
    Walk *walk = walk_of(capsule);
    if (walk == NULL) {
        return NULL;
    }
    Found found = {hidden_list(), hidden_list(), hidden_list(), hidden_list()};
    int is_end = -1;
    if (found.objects && found.new_types && found.rows && found.others) {
        is_end = walk_on(walk, &found, most);
    }
    if (walk->search != NULL && is_end < 0) {
        walk->search->hiding_count = walk->search->ahead_count = 0; /* nobody holds them */
    } else if (walk->search != NULL && rest(walk->search, &found) < 0) {
        is_end = -1;
    }
    if (is_end) {
        leave_stations(walk);
    }
    return shown(&found, is_end);
}

static void
free_walk(PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    leave_stations(walk);
    for (int i = 0; i < CURSORS; i++) {
        Py_XDECREF(walk->cursors[i].marker);
    }
    if (walk->search != NULL) {
        free_search(walk->search);
        free(walk->search);
    }
    free_table(&walk->table);
    free(walk);
}

static int
place_cursors(Walk *walk)
{
    for (int i = 0; i < CURSORS; i++) {
        walk->cursors[i].marker = new_marker(REST);
        if (walk->cursors[i].marker == NULL) {
            return -1;
        }
        PyObject_GC_Track(walk->cursors[i].marker);
    }
    return 0;
}

PyDoc_STRVAR(new_walk_doc, "new_walk(first, second, third, every) -> walk\n\n"
             "Begin to count. The thresholds of gc.get_threshold() are looked for where the\n"
             "collector should have them: ValueError where they are not. The address of every n-th\n"
             "object is noted.");

static PyObject *
new_walk(PyObject *module, PyObject *args)
{
    int thresholds[3];
    Py_ssize_t every;
    if (!PyArg_ParseTuple(args, "iiin", &thresholds[0], &thresholds[1], &thresholds[2], &every)) {
        return NULL;
    }
    Walk *walk = calloc(1, sizeof(Walk));
    PyObject *capsule = walk ? PyCapsule_New(walk, WALK, free_walk) : PyErr_NoMemory();
    if (capsule == NULL) {
        free(walk);
        return NULL;
    }
    walk->generation = 2;
    walk->address_step = walk->until_address = every > 0 ? (size_t)every : 1;
    walk->collector = find_collector(thresholds);
    if (walk->collector == NULL || place_cursors(walk) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "the garbage collector's layout is not known");
        }
        Py_CLEAR(capsule);
        return NULL;
    }
    walk->last_frozen = preceding(&walk->collector->permanent.head);
    use_stations(walk);
    return capsule;
}

PyDoc_STRVAR(search_doc, "search(walk, array, getters, others, opaque, large, room)\n\n"
             "Look for arrays among the referents of all objects, and for the sizes of objects.\n"
             "What `opaque` tensors refer to is not read. `getters` are five descriptors in C of\n"
             "`array`: bytes and base first. All five are\n"
             "asked of views and of arrays of `large` bytes, of `room` arrays at most.");

static PyObject *
start_search(PyObject *module, PyObject *args)
{
    PyObject *capsule, *array, *getters, *others, *opaque;
    Py_ssize_t large, room;
    if (!PyArg_ParseTuple(args, "OOO!O!Onn", &capsule, &array, &PyTuple_Type, &getters,
                          &PyTuple_Type, &others, &opaque, &large, &room)) {
        return NULL;
    }
    Walk *walk = walk_of(capsule);
    int has_array = array != Py_None;
    if (walk == NULL || walk->search != NULL || walk->generation != 2 ||
        (has_array && !PyType_Check(array)) || (opaque != Py_None && !PyType_Check(opaque)) ||
        PyTuple_Size(getters) != (has_array ? 5 : 0)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "odd arguments");
    }
    Search *search = calloc(1, sizeof(Search));
    if (search == NULL) {
        return PyErr_NoMemory();
    }
    Py_INCREF(others);
    *search = (Search){.others = others, .large = large, .room = room, .table = &walk->table};
    for (Py_ssize_t i = 0; has_array && i < 5; i++) {
        search->getters[i] = PyTuple_GetItem(getters, i);
        Py_INCREF(search->getters[i]);
    }
    if (has_array) {
        Py_INCREF(array);
        search->array = (PyTypeObject *)array;
    }
    if (opaque != Py_None) {
        Py_INCREF(opaque);
        search->opaque = (PyTypeObject *)opaque;
    }
    walk->search = search;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(mark_doc, "mark(walk, type, what, basic, item, size_method)\n\n"
             "From now on: 1 counts instances, 2 collects them too, 3 counts and never holds one.\n"
             "Their sizes: by `size_method`, a method in C of a builtin type; if it is None and\n"
             "`item` is not 0, by their number of items; else not here.");

static PyObject *
mark(PyObject *module, PyObject *args)
{
    PyObject *capsule, *type, *method;
    int what;
    Py_ssize_t basic, item;
    if (!PyArg_ParseTuple(args, "OO!innO", &capsule, &PyType_Type, &type, &what, &basic, &item,
                          &method)) {
        return NULL;
    }
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    Row *row = walk ? row_of(&walk->table, type) : NULL;
    if (row == NULL) {
        return NULL;
    }
    row->what = (unsigned char)what;
    row->basic_bytes = basic;
    row->item_bytes = item;
    row->sizing = method != Py_None ? ASKED : item ? BY_ITEMS : EVEN;
    if (method != Py_None && row->size_method == NULL) {
        Py_INCREF(method);
        row->size_method = method;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(counts_doc, "counts(walk) -> [(type, count, bytes, arrays, array_bytes)]\n\n"
             "Tracked instances, their bytes (-1 if not known here), arrays and their bytes.");

static PyObject *
counts(PyObject *module, PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    PyObject *found = walk ? PyList_New(0) : NULL;
    for (size_t i = 0; found != NULL && i < walk->table.used; i++) {
        Row *row = &walk->table.rows[i];
        Py_ssize_t arrays = row->arrays + (Py_ssize_t)(row->shared_arrays + 0.5);
        Py_ssize_t array_bytes = row->array_bytes + (Py_ssize_t)row->shared_bytes;
        if (row->count == 0 && arrays == 0) {
            continue;
        }
        PyObject *one = Py_BuildValue("(Onnnn)", row->type, row->count, all_bytes(row), arrays,
                                      array_bytes);
        if (one == NULL || PyList_Append(found, one) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(one);
    }
    return found;
}

PyDoc_STRVAR(is_frozen_anew_doc, "is_frozen_anew(walk) -> bool\n\n"
             "Whether gc.freeze() or gc.unfreeze() moved objects since the walk began.");

static PyObject *
is_frozen_anew(PyObject *module, PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    return walk ? PyBool_FromLong(preceding(&walk->collector->permanent.head) != walk->last_frozen)
                : NULL;
}

PyDoc_STRVAR(addresses_doc, "addresses(walk) -> [address]\n\nThose of some objects.");

static PyObject *
addresses(PyObject *module, PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    PyObject *found = walk ? PyList_New(0) : NULL;
    for (size_t i = 0; found != NULL && i < walk->address_count; i++) {
        PyObject *one = PyLong_FromVoidPtr((void *)walk->addresses[i]);
        if (one == NULL || PyList_Append(found, one) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(one);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"new_walk", new_walk, METH_VARARGS, new_walk_doc},
    {"search", start_search, METH_VARARGS, search_doc},
    {"mark", mark, METH_VARARGS, mark_doc},
    {"go_on", go_on, METH_VARARGS, go_on_doc},
    {"counts", counts, METH_O, counts_doc},
    {"is_frozen_anew", is_frozen_anew, METH_O, is_frozen_anew_doc},
    {"addresses", addresses, METH_O, addresses_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "heap_walk", "Tracked objects, a few at a time.", -1, methods,
    NULL, NULL, NULL, NULL,
};

/* At the end of the runtime: a program with Python inside may start another, with other lists. */
static void
forget_markers(void)
{
    memset(&stations, 0, sizeof(stations));
    marker_type = NULL;
}

PyMODINIT_FUNC
PyInit_heap_walk(void)
{
    if (marker_type == NULL) {
        if (Py_AtExit(forget_markers) < 0) {
            return PyErr_Format(PyExc_ImportError, "too many functions at exit");
        }
        marker_type = (PyTypeObject *)PyType_FromSpec(&marker_spec);
    }
    stations.spacing = stations.spacing ? stations.spacing : FIRST_SPACING;
    return marker_type ? PyModule_Create(&definition) : NULL;
}
