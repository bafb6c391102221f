/* The lists of objects that CPython's garbage collector tracks, and markers of ours in them.
 *
 * The lists are rings of headers, one before each object (PyGC_Head of
 * Include/internal/pycore_gc.h, the same in 3.11 to 3.13). tracked_objects.py checks the layout
 * before anything here is used.
 */

typedef struct {
    uintptr_t next;
    uintptr_t prev;
} Header;

#define FLAGS ((uintptr_t)3)

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

static int
is_tracked(PyObject *object)
{
    return header_of(object)->next != 0;
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

/* A collection may have moved a marker to an older generation, gc.freeze() to the permanent one:
 * a list ends at whichever head comes. */
static int
is_head(Collector *collector, Header *header)
{
    return (uintptr_t)header - (uintptr_t)collector < sizeof(Collector);
}

static int
is_frozen(Collector *collector)
{
    return following(&collector->permanent.head) != &collector->permanent.head;
}

/* A tracked object of ours in a list. Walks rest at markers of their own. A station stays in its
 * place from walk to walk: the next walk goes on from all stations at once. */
enum { REST = 0, STATION = 1 };

typedef struct {
    PyObject_HEAD
    int role;
} Marker;

static PyTypeObject *marker_type;

static int
traverse_marker(PyObject *marker, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(marker));
    return 0;
}

static void
free_marker(PyObject *marker)
{
    PyTypeObject *type = Py_TYPE(marker);
    PyObject_GC_UnTrack(marker);
    PyObject_GC_Del(marker);
    Py_DECREF(type);
}

static PyType_Slot marker_slots[] = {
    {Py_tp_traverse, traverse_marker},
    {Py_tp_dealloc, free_marker},
    {0, NULL},
};

static PyType_Spec marker_spec = {
    "ramledger.interpreter.heap_walk.Marker", sizeof(Marker), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, marker_slots,
};

static PyObject *
new_marker(int role)
{
    Marker *marker = PyObject_GC_New(Marker, marker_type);
    if (marker != NULL) {
        marker->role = role;
    }
    return (PyObject *)marker;
}

static int
is_marker(PyObject *object)
{
    return Py_TYPE(object) == marker_type;
}

static int
is_station(PyObject *marker)
{
    return ((Marker *)marker)->role == STATION;
}
