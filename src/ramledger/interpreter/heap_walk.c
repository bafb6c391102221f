/* Goes through the objects that CPython's garbage collector tracks, a few at a time.
 *
 * gc.get_objects() holds the interpreter's lock until its whole list is made, and the list holds
 * references to tuples that other threads are still filling. Here a walk rests after some objects:
 * a marker of ours, itself a tracked object, stands in the collector's list where it goes on.
 *
 * Types are counted in a table by identity: no code of a metaclass runs.
 *
 * The lists are rings of headers, one before each object (PyGC_Head of
 * Include/internal/pycore_gc.h, the same in 3.11 to 3.13). tracked_objects.py checks the layout
 * before anything here is used.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uintptr_t next;
    uintptr_t prev;
} Header;

#define FLAGS ((uintptr_t)3)
#define FIRST_ROWS 1024  /* of a table: a power of two */

static Header *
header_of(PyObject *object)
{
    return (Header *)object - 1;
}

static PyObject *
object_of(Header *header)
{
    return (PyObject *)(header + 1);
}

static Header *
following(Header *header)
{
    return (Header *)(header->next & ~FLAGS);
}

static Header *
preceding(Header *header)
{
    return (Header *)(header->prev & ~FLAGS);
}

static void
set_following(Header *header, Header *next)
{
    header->next = (uintptr_t)next | (header->next & FLAGS);
}

static void
set_preceding(Header *header, Header *prev)
{
    header->prev = (uintptr_t)prev | (header->prev & FLAGS);
}

/* Whether both neighbors of a header point back to it. */
static int
is_linked(Header *header)
{
    Header *next = following(header), *prev = preceding(header);
    return next && prev && preceding(next) == header && following(prev) == header;
}

static void
move_behind(Header *moved, Header *place)
{
    Header *next = following(moved), *prev = preceding(moved);
    set_following(prev, next);
    set_preceding(next, prev);
    next = following(place);
    set_following(place, moved);
    set_preceding(moved, place);
    set_following(moved, next);
    set_preceding(next, moved);
}

/* struct gc_generation, and the part of struct _gc_runtime_state that has four of them. */
typedef struct {
    Header head;
    int threshold;
    int count;
} Generation;

typedef struct {
    Generation generations[3];
    Generation *generation0;
    Generation permanent;
} Collector;

/* The collector's state, recognized by its numbers and pointers; NULL if the layout is another. */
static Collector *
find_collector(const int thresholds[3])
{
    /* a new object is the last of the youngest generation: its list's head follows */
    PyObject *newest = PyList_New(0);
    if (newest == NULL) {
        return NULL;
    }
    Collector *found = (Collector *)following(header_of(newest));
    Py_DECREF(newest);
    for (int i = 0; i < 3; i++) {
        if (found == NULL || found->generations[i].threshold != thresholds[i] ||
            !is_linked(&found->generations[i].head)) {
            return NULL;
        }
    }
    return found->generation0 == found->generations && is_linked(&found->permanent.head) ? found
                                                                                        : NULL;
}

/* What is to be done with instances of a type. */
enum { NEW = 0, COUNT = 1, WANT = 2, NEVER_HOLD = 3 };

typedef struct {
    PyObject *type;
    Py_ssize_t count;
    int what;
} Row;

typedef struct {
    Row *rows;
    size_t size;  /* a power of two */
    size_t used;
} Table;

static Row *
row_of(Table *table, PyObject *type)
{
    size_t mask = table->size - 1, at = ((uintptr_t)type >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (table->rows[at].type != NULL && table->rows[at].type != type) {
        at = (at + 1) & mask;
    }
    return &table->rows[at];
}

static int
grow(Table *table)
{
    Table larger = {calloc(table->size * 2, sizeof(Row)), table->size * 2, table->used};
    if (larger.rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < table->size; i++) {
        if (table->rows[i].type != NULL) {
            *row_of(&larger, table->rows[i].type) = table->rows[i];
        }
    }
    free(table->rows);
    *table = larger;
    return 0;
}

/* The row of a type, made if need be: it holds the type. NULL on an error. */
static Row *
made_row(Table *table, PyObject *type)
{
    Row *row = row_of(table, type);
    if (row->type == NULL) {
        if (table->used * 2 >= table->size) {
            if (grow(table) < 0) {
                return NULL;
            }
            row = row_of(table, type);
        }
        Py_INCREF(type);
        row->type = type;
        table->used++;
    }
    return row;
}

/* A walk: where it stands, and what it has counted. */
typedef struct {
    Collector *collector;
    PyObject *marker;
    Table table;
} Walk;

static const char *const WALK = "ramledger.heap_walk.walk";

static void
free_walk(PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    for (size_t i = 0; i < walk->table.size; i++) {
        Py_XDECREF(walk->table.rows[i].type);
    }
    Py_XDECREF(walk->marker);
    free(walk->table.rows);
    free(walk);
}

PyDoc_STRVAR(new_walk_doc, "new_walk(*thresholds) -> walk\n\n"
             "Begin to count. `thresholds`, those of gc.get_threshold(), are looked for where the\n"
             "collector should have them: ValueError where they are not.");

static PyObject *
new_walk(PyObject *module, PyObject *args)
{
    int thresholds[3];
    if (!PyArg_ParseTuple(args, "iii", &thresholds[0], &thresholds[1], &thresholds[2])) {
        return NULL;
    }
    Walk *walk = calloc(1, sizeof(Walk));
    PyObject *capsule = walk ? PyCapsule_New(walk, WALK, free_walk) : PyErr_NoMemory();
    if (capsule == NULL) {
        free(walk);
        return NULL;
    }
    walk->collector = find_collector(thresholds);
    walk->marker = PyList_New(0);
    walk->table.rows = calloc(FIRST_ROWS, sizeof(Row));
    walk->table.size = walk->table.rows ? FIRST_ROWS : 0;
    if (walk->collector == NULL || walk->marker == NULL || walk->table.rows == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "the garbage collector's layout is not known");
        }
        Py_CLEAR(capsule);
    }
    return capsule;
}

PyDoc_STRVAR(mark_doc, "mark(walk, type, what)\n\n"
             "From now on: 1 counts instances, 2 collects them too, 3 counts and never holds one.");

static PyObject *
mark(PyObject *module, PyObject *args)
{
    PyObject *capsule, *type;
    int what;
    if (!PyArg_ParseTuple(args, "OO!i", &capsule, &PyType_Type, &type, &what)) {
        return NULL;
    }
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    Row *row = walk ? made_row(&walk->table, type) : NULL;
    if (row == NULL) {
        return NULL;
    }
    row->what = what;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(counts_doc, "counts(walk) -> [(type, count)]");

static PyObject *
counts(PyObject *module, PyObject *capsule)
{
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    PyObject *found = walk ? PyList_New(0) : NULL;
    for (size_t i = 0; found != NULL && i < walk->table.size; i++) {
        Row *row = &walk->table.rows[i];
        if (row->type == NULL || row->count == 0) {
            continue;
        }
        PyObject *pair = Py_BuildValue("(On)", row->type, row->count);
        if (pair == NULL || PyList_Append(found, pair) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(pair);
    }
    return found;
}

PyDoc_STRVAR(enter_doc, "enter(walk, generation)\n\nGo on at the beginning of a generation.");

static PyObject *
enter(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    int generation;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &generation)) {
        return NULL;
    }
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    if (walk == NULL) {
        return NULL;
    }
    if (generation < 0 || generation > 2 || !is_linked(header_of(walk->marker))) {
        PyErr_SetString(PyExc_ValueError, "no such generation, or the marker is not tracked");
        return NULL;
    }
    move_behind(header_of(walk->marker), &walk->collector->generations[generation].head);
    Py_RETURN_NONE;
}

/* A collection may have moved the marker to an older generation, gc.freeze() to the permanent one:
 * a list ends at whichever head comes. */
static int
is_head(Walk *walk, Header *header)
{
    Collector *collector = walk->collector;
    return header == &collector->generations[2].head || header == &collector->generations[1].head ||
           header == &collector->generations[0].head || header == &collector->permanent.head;
}

/* What one call collects. */
typedef struct {
    PyObject *objects;
    PyObject *new_types;
    int everything;
} Found;

/* Count one object and collect it if its type is wanted: 0, or -1 on an error. */
static int
take(Walk *walk, Found *found, PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    if (object == found->objects || object == found->new_types || object == walk->marker) {
        return 0;
    }
    Row *row = made_row(&walk->table, type);
    if (row == NULL) {
        return -1;
    }
    if (row->count++ == 0 && row->what == NEW && PyList_Append(found->new_types, type) < 0) {
        return -1;
    }
    int is_wanted = row->what == WANT || row->what == NEW || found->everything;
    return is_wanted && row->what != NEVER_HOLD ? PyList_Append(found->objects, object) : 0;
}

/* Whether the list has ended: 1 or 0; -1 on an error. */
static int
walk_on(Walk *walk, Found *found, Py_ssize_t most)
{
    Header *marker = header_of(walk->marker), *node = following(marker), *last = marker;
    int error = 0;
    for (Py_ssize_t seen = 0; !is_head(walk, node) && seen < most && !error; seen++) {
        error = take(walk, found, object_of(node));
        last = node;
        node = following(node);
    }
    if (last != marker) {
        move_behind(marker, last);
    }
    return error ? -1 : is_head(walk, node);
}

PyDoc_STRVAR(go_on_doc, "go_on(walk, most, everything) -> (objects, new_types, is_end)\n\n"
             "Go through `most` objects. Collected are instances of wanted and of new types, or of\n"
             "all types that may be held.");

static PyObject *
go_on(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    Py_ssize_t most;
    Found found = {0};
    if (!PyArg_ParseTuple(args, "Onp", &capsule, &most, &found.everything)) {
        return NULL;
    }
    Walk *walk = PyCapsule_GetPointer(capsule, WALK);
    if (walk == NULL) {
        return NULL;
    }
    if (!is_linked(header_of(walk->marker))) {
        PyErr_SetString(PyExc_ValueError, "the marker is not tracked");
        return NULL;
    }
    found.objects = PyList_New(0);
    found.new_types = PyList_New(0);
    int is_end = found.objects && found.new_types ? walk_on(walk, &found, most) : -1;
    if (is_end < 0) {
        Py_XDECREF(found.objects);
        Py_XDECREF(found.new_types);
        return NULL;
    }
    return Py_BuildValue("(NNO)", found.objects, found.new_types, is_end ? Py_True : Py_False);
}

/* Objects that are held for the length of one call. */
typedef struct {
    PyObject **items;
    size_t count;
    size_t room;
} Held;

static int
hold(Held *held, PyObject *object)
{
    if (held->count == held->room) {
        size_t room = held->room ? 2 * held->room : 256;
        PyObject **items = realloc(held->items, room * sizeof(PyObject *));
        if (items == NULL) {
            return -1;
        }
        held->items = items;
        held->room = room;
    }
    Py_INCREF(object);
    held->items[held->count++] = object;
    return 0;
}

static void
let_go(Held *held)
{
    for (size_t i = 0; i < held->count; i++) {
        Py_DECREF(held->items[i]);
    }
    free(held->items);
}

typedef struct {
    PyTypeObject *array;
    PyObject *kinds;
    Held arrays;
    Held others;
} Search;

static int
sort_referent(PyObject *object, void *argument)
{
    Search *search = argument;
    if (PyType_IsSubtype(Py_TYPE(object), search->array)) {
        return hold(&search->arrays, object);
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(search->kinds); i++) {
        if (PyTuple_GetItem(search->kinds, i) == (PyObject *)Py_TYPE(object)) {
            return hold(&search->others, object);
        }
    }
    return 0;
}

/* Whether an object may be traversed: the collector has it, or would have if it held more. */
static int
has_referents(PyObject *object)
{
    return PyObject_GC_IsTracked(object) || PyDict_CheckExact(object) || PyTuple_CheckExact(object);
}

/* Whether an array is large or a view, as its first two getters have said. */
static int
is_special(PyObject *bytes, PyObject *base, Py_ssize_t large)
{
    return base != Py_None || (PyLong_Check(bytes) && PyLong_AsSsize_t(bytes) >= large);
}

/* One row for an array: what each getter says of it; None for what raises, and for all but the
 * first two where they say that it is neither large nor a view. */
static PyObject *
described(PyObject *array, PyObject *getters, Py_ssize_t large)
{
    Py_ssize_t count = PyTuple_Size(getters);
    PyObject *row = PyTuple_New(count + 3);
    if (row == NULL) {
        return NULL;
    }
    Py_INCREF((PyObject *)Py_TYPE(array));
    PyTuple_SetItem(row, 0, (PyObject *)Py_TYPE(array));
    PyTuple_SetItem(row, 1, PyLong_FromVoidPtr(array));
    PyTuple_SetItem(row, 2, PyLong_FromSsize_t(Py_REFCNT(array)));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = NULL;
        if (i < 2 || is_special(PyTuple_GetItem(row, 3), PyTuple_GetItem(row, 4), large)) {
            value = PyObject_CallFunctionObjArgs(PyTuple_GetItem(getters, i), array, NULL);
        }
        if (value == NULL) {
            PyErr_Clear();
            Py_INCREF(Py_None);
            value = Py_None;
        }
        PyTuple_SetItem(row, i + 3, value);
    }
    return row;
}

static PyObject *
listed(Held *held, PyObject *getters, Py_ssize_t large)
{
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < held->count; i++) {
        PyObject *item = held->items[i];
        PyObject *row = getters ? described(item, getters, large) : item;
        if (row == NULL || PyList_Append(found, row) < 0) {
            Py_CLEAR(found);
        }
        if (getters) {
            Py_XDECREF(row);
        }
    }
    return found;
}

PyDoc_STRVAR(search_doc, "search(holders, array, getters, large, kinds) -> (rows, others)\n\n"
             "Among what the holders refer to: for each instance of `array` a row of its type, its\n"
             "id, its reference count and what each getter says, and instances of `kinds`. The\n"
             "first two getters tell its bytes and its base; the others are asked of views and of\n"
             "arrays of `large` bytes. They are C code: no array is held when the program runs.");

static PyObject *
search(PyObject *module, PyObject *args)
{
    PyObject *holders, *array, *getters;
    Py_ssize_t large;
    Search found = {0};
    if (!PyArg_ParseTuple(args, "O!O!O!nO!", &PyList_Type, &holders, &PyType_Type, &array,
                          &PyTuple_Type, &getters, &large, &PyTuple_Type, &found.kinds)) {
        return NULL;
    }
    found.array = (PyTypeObject *)array;
    int error = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(holders) && !error; i++) {
        PyObject *holder = PyList_GetItem(holders, i);
        traverseproc traverse = has_referents(holder)
                                    ? PyType_GetSlot(Py_TYPE(holder), Py_tp_traverse)
                                    : NULL;
        error = traverse ? traverse(holder, sort_referent, &found) : 0;
    }
    PyObject *rows = error ? PyErr_NoMemory() : listed(&found.arrays, getters, large);
    let_go(&found.arrays);
    PyObject *others = rows ? listed(&found.others, NULL, 0) : NULL;
    let_go(&found.others);
    if (others == NULL) {
        Py_XDECREF(rows);
        return NULL;
    }
    return Py_BuildValue("(NN)", rows, others);
}

static PyMethodDef methods[] = {
    {"new_walk", new_walk, METH_VARARGS, new_walk_doc},
    {"mark", mark, METH_VARARGS, mark_doc},
    {"counts", counts, METH_O, counts_doc},
    {"enter", enter, METH_VARARGS, enter_doc},
    {"go_on", go_on, METH_VARARGS, go_on_doc},
    {"search", search, METH_VARARGS, search_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "heap_walk", "Tracked objects, a few at a time.", 0, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit_heap_walk(void)
{
    return PyModule_Create(&definition);
}
