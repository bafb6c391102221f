/* One row a type, found by identity: no code of a metaclass runs. A row holds its type. */

/* What is to be done with tracked instances of a type. */
enum { NEW = 0, COUNT = 1, WANT = 2, NEVER_HOLD = 3 };

/* How the size of an instance is known. */
enum { EVEN = 0, BY_ITEMS = 1, ASKED = 2 };

/* What an instance is to the search for arrays. */
enum {
    NOT_KNOWN = 0, NOTHING = 1, HIDING = 2, NUMPY = 3, BYTES = 4, OTHER_ARRAY = 5, OPAQUE = 6
};

#define FIRST_SLOTS 1024     /* of a table: a power of two */
#define ASKED_FIRST 1000     /* instances of a type whose size is asked; of the others, one in ... */
#define ASKED_ONE_IN 16
#define LONG_CONTAINER 1024  /* elements: its size is asked in any case, and represents no other */

typedef struct {
    PyObject *type;
    PyObject *size_method;
    Py_ssize_t count;
    Py_ssize_t exact, exact_bytes;    /* instances whose size is known */
    Py_ssize_t sample, sample_bytes;  /* those that represent all others */
    Py_ssize_t arrays, array_bytes;
    double shared_arrays, shared_bytes;
    Py_ssize_t basic_bytes, item_bytes;
    traverseproc traverse;
    unsigned char what, sizing, role, has_gc;
} Row;

typedef struct {
    PyObject *type;
    size_t row;
} Slot;

typedef struct {
    Slot *slots;
    size_t size;  /* a power of two */
    Row *rows;
    size_t used, room;
} Table;

static Slot *
slot_of(Table *table, PyObject *type)
{
    size_t mask = table->size - 1, at = ((uintptr_t)type >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (table->slots[at].type != NULL && table->slots[at].type != type) {
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

/* Room for one more row: 0, or -1 on an error. */
static int
make_room(Table *table)
{
    if (table->used == table->room) {
        size_t room = table->room ? 2 * table->room : FIRST_SLOTS / 2;
        Row *rows = realloc(table->rows, room * sizeof(Row));
        if (rows == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        table->rows = rows;
        table->room = room;
    }
    if (table->used * 2 < table->size) {
        return 0;
    }
    Table larger = *table;
    larger.size = table->size ? 2 * table->size : FIRST_SLOTS;
    larger.slots = calloc(larger.size, sizeof(Slot));
    if (larger.slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < table->used; i++) {
        *slot_of(&larger, table->rows[i].type) = (Slot){table->rows[i].type, i};
    }
    free(table->slots);
    *table = larger;
    return 0;
}

/* The row of a type, made if need be. It stays in place until another is made. NULL on an error. */
static Row *
row_of(Table *table, PyObject *type)
{
    if (table->size) {
        Slot *slot = slot_of(table, type);
        if (slot->type != NULL) {
            return &table->rows[slot->row];
        }
    }
    if (make_room(table) < 0) {
        return NULL;
    }
    Py_INCREF(type);
    Row *row = &table->rows[table->used];
    *row = (Row){.type = type};
    row->has_gc = (PyType_GetFlags((PyTypeObject *)type) & Py_TPFLAGS_HAVE_GC) != 0;
    row->traverse = (traverseproc)PyType_GetSlot((PyTypeObject *)type, Py_tp_traverse);
    *slot_of(table, type) = (Slot){type, table->used++};
    return row;
}

static void
free_table(Table *table)
{
    for (size_t i = 0; i < table->used; i++) {
        Py_DECREF(table->rows[i].type);
        Py_XDECREF(table->rows[i].size_method);
    }
    free(table->slots);
    free(table->rows);
}

/* As the allocator sees it: with the collector's header, in steps of 16 bytes. */
static Py_ssize_t
allocated_bytes(Row *row, Py_ssize_t size)
{
    return (size + (row->has_gc ? (Py_ssize_t)sizeof(Header) : 0) + 15) & ~(Py_ssize_t)15;
}

/* What a method in C says; 0 if it raises. */
static Py_ssize_t
asked_size(Row *row, PyObject *object)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(row->size_method, object, NULL);
    Py_ssize_t size = answer ? PyLong_AsSsize_t(answer) : -1;
    Py_XDECREF(answer);
    PyErr_Clear();
    return size < 0 ? 0 : allocated_bytes(row, size);
}

static int
is_long(PyObject *object)
{
    return (PyList_CheckExact(object) && PyList_Size(object) >= LONG_CONTAINER) ||
           (PyDict_CheckExact(object) && PyDict_Size(object) >= LONG_CONTAINER) ||
           (PyAnySet_CheckExact(object) && PySet_Size(object) >= LONG_CONTAINER);
}

/* Add the size of one instance to its type's; called with `count` including it. */
static void
add_size(Row *row, PyObject *object)
{
    if (row->sizing == BY_ITEMS) {
        Py_ssize_t items = Py_SIZE(object);
        row->exact++;
        row->exact_bytes += allocated_bytes(
            row, row->basic_bytes + row->item_bytes * (items < 0 ? -items : items));
    } else if (row->sizing == ASKED && (row->exact < ASKED_FIRST || is_long(object))) {
        row->exact++;
        row->exact_bytes += asked_size(row, object);
    } else if (row->sizing == ASKED && row->count % ASKED_ONE_IN == 0) {
        row->sample++;
        row->sample_bytes += asked_size(row, object);
    }
}

/* The bytes of all instances that the collector has; -1 if they were not sized here. */
static Py_ssize_t
all_bytes(Row *row)
{
    if (row->exact == 0) {
        return -1;
    }
    double others = (double)(row->count - row->exact);
    double mean = row->sample ? (double)row->sample_bytes / (double)row->sample
                              : (double)row->exact_bytes / (double)row->exact;
    return row->exact_bytes + (Py_ssize_t)(mean * others);
}
