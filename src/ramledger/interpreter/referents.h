/* Arrays among what objects refer to: numpy's and bytes, which the collector does not track, also
 * through dictionaries and tuples that it does not track either. Each array counts once.
 *
 * All referents here are borrowed: while they are, nothing runs but C code of the interpreter and
 * of numpy that makes no object with a collector's header. At a rest, the few that a search is in
 * the middle of are held.
 */

#define AHEAD 64               /* referents that are fetched into the cache before they are read */
#define MOST_HIDING (1 << 16)  /* dictionaries and tuples that wait for their turn */
#define LEAST_AT_ONCE 256      /* referents that one visit gets through in any case */
#define LONG_VISIT 4096        /* referents after which a visit may stop in the middle */
#define MOST_SKIPPED (1 << 19) /* referents of an object that can only be read from its beginning */
#define MOST_SHARED (1 << 19)  /* arrays and tuples with several holders that are remembered */
#define SPECIAL_COST 16        /* describing an array takes as long as this many referents */

/* A set of addresses; it does not grow beyond MOST_SHARED. */
typedef struct {
    uintptr_t *items;
    size_t size, used;
} Addresses;

static uintptr_t *
place_of(Addresses *set, uintptr_t address)
{
    size_t mask = set->size - 1, at = (address >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
    while (set->items[at] != 0 && set->items[at] != address) {
        at = (at + 1) & mask;
    }
    return &set->items[at];
}

enum { FULL = -1, NEW_THERE = 0, WAS_THERE = 1 };

static int
add_address(Addresses *set, uintptr_t address)
{
    if (set->used * 2 >= set->size && set->size <= MOST_SHARED) {
        Addresses larger = {NULL, set->size ? 2 * set->size : 1024, set->used};
        larger.items = calloc(larger.size, sizeof(uintptr_t));
        if (larger.items == NULL) {
            return FULL;
        }
        for (size_t i = 0; i < set->size; i++) {
            if (set->items[i] != 0) {
                *place_of(&larger, set->items[i]) = set->items[i];
            }
        }
        free(set->items);
        *set = larger;
    }
    uintptr_t *place = place_of(set, address);
    if (*place == address) {
        return WAS_THERE;
    }
    if (set->used >= MOST_SHARED) {
        return FULL;
    }
    *place = address;
    set->used++;
    return NEW_THERE;
}

/* Objects in a row; held or borrowed as the owner of the row says. */
typedef struct {
    PyObject **items;
    size_t count, room;
} Objects;

static int
add_object(Objects *objects, PyObject *object)
{
    if (objects->count == objects->room) {
        size_t room = objects->room ? 2 * objects->room : 256;
        PyObject **items = realloc(objects->items, room * sizeof(PyObject *));
        if (items == NULL) {
            return -1;
        }
        objects->items = items;
        objects->room = room;
    }
    objects->items[objects->count++] = object;
    return 0;
}

static void
let_go(Objects *objects)
{
    for (size_t i = 0; i < objects->count; i++) {
        Py_DECREF(objects->items[i]);
    }
    free(objects->items);
    *objects = (Objects){0};
}

/* A dictionary or a tuple, and how many of its referents were read. */
typedef struct {
    PyObject *object;
    Py_ssize_t done;
} Hiding;

typedef struct {
    PyTypeObject *array;         /* numpy's; NULL without numpy */
    PyObject *getters[5];        /* descriptors: bytes, base, then what only a description needs */
    PyObject *others;            /* a tuple of further types */
    PyTypeObject *opaque;        /* of torch's tensors, which change without the GIL; may be NULL */
    Py_ssize_t large;            /* bytes from which an array is described */
    Py_ssize_t room;             /* for descriptions */
    Table *table;
    Addresses shared;
    PyObject *ahead[AHEAD];
    size_t ahead_count;
    Hiding *hiding;
    size_t hiding_count, hiding_room;
    Objects held;                /* at a rest: what `hiding` has */
    Objects special;             /* held: arrays to be described, and those of further types */
    Py_ssize_t cost;             /* referents read in this stretch */
    int error;
} Search;

/* What a getter in C says of an array; NULL without an error if it raises. */
static PyObject *
got(PyObject *getter, PyObject *array)
{
    descrgetfunc get = (descrgetfunc)PyType_GetSlot(Py_TYPE(getter), Py_tp_descr_get);
    PyObject *answer = get ? get(getter, array, (PyObject *)Py_TYPE(array)) : NULL;
    if (answer == NULL) {
        PyErr_Clear();
    }
    return answer;
}

static void
want_described(Search *search, PyObject *array)
{
    if (search->room > 0 && add_object(&search->special, array) == 0) {
        Py_INCREF(array);
        search->room--;
        search->cost += SPECIAL_COST;
    }
}

/* An array is met once in the collector's list, or by each of its holders. */
static int
is_met_again(Search *search, Row *row, PyObject *array, int *is_full)
{
    if (row->has_gc || Py_REFCNT(array) <= 1) {
        return 0;
    }
    int there = add_address(&search->shared, (uintptr_t)array);
    *is_full = there == FULL;
    return there == WAS_THERE;
}

static void
add_array(Row *row, PyObject *array, Py_ssize_t size, int is_full)
{
    if (!is_full) {
        row->arrays++;
        row->array_bytes += size;
    } else { /* too many to remember: a part by each of its holders */
        row->shared_arrays += 1.0 / (double)Py_REFCNT(array);
        row->shared_bytes += (double)size / (double)Py_REFCNT(array);
    }
}

static void
take_numpy(Search *search, Row *row, PyObject *array)
{
    int is_full = 0;
    if (is_met_again(search, row, array, &is_full)) {
        return;
    }
    PyObject *answer = got(search->getters[0], array), *base = got(search->getters[1], array);
    Py_ssize_t size = answer && PyLong_Check(answer) ? PyLong_AsSsize_t(answer) : 0;
    int is_view = base != NULL && base != Py_None;
    Py_XDECREF(answer);
    Py_XDECREF(base);
    add_array(row, array, is_view ? 0 : size, is_full);
    if (is_view || size >= search->large) {
        want_described(search, array);
    }
}

static void
take_bytes(Search *search, Row *row, PyObject *array)
{
    int is_full = 0;
    if (is_met_again(search, row, array, &is_full)) {
        return;
    }
    Py_ssize_t size = PyBytes_CheckExact(array) ? PyBytes_Size(array) : PyByteArray_Size(array);
    add_array(row, array, size, is_full);
    if (size >= search->large) {
        want_described(search, array);
    }
}

/* Only those that the collector does not track: it leads to the others itself. */
static void
take_hiding(Search *search, PyObject *object)
{
    Py_ssize_t size = PyTuple_CheckExact(object) ? PyTuple_Size(object) : PyDict_Size(object);
    if (size == 0 || is_tracked(object)) {
        return;
    }
    if (Py_REFCNT(object) > 1 && add_address(&search->shared, (uintptr_t)object) != NEW_THERE) {
        return;
    }
    if (search->hiding_count == search->hiding_room) {
        size_t room = search->hiding_room ? 2 * search->hiding_room : 256;
        Hiding *hiding = realloc(search->hiding, room * sizeof(Hiding));
        if (hiding == NULL) {
            search->error = 1;
            return;
        }
        search->hiding = hiding;
        search->hiding_room = room;
    }
    search->hiding[search->hiding_count++] = (Hiding){object, 0};
}

static int
role_of(Search *search, PyTypeObject *type)
{
    if (type == &PyDict_Type || type == &PyTuple_Type) {
        return HIDING;
    }
    if (type == &PyBytes_Type || type == &PyByteArray_Type) {
        return BYTES;
    }
    if (search->array != NULL && PyType_IsSubtype(type, search->array)) {
        return NUMPY;
    }
    if (search->opaque != NULL && PyType_IsSubtype(type, search->opaque)) {
        return OPAQUE;
    }
    for (Py_ssize_t i = 0; i < PyTuple_Size(search->others); i++) {
        if (PyTuple_GetItem(search->others, i) == (PyObject *)type) {
            return OTHER_ARRAY;
        }
    }
    return NOTHING;
}

static int
role_in(Search *search, Row *row)
{
    if (row->role == NOT_KNOWN) {
        row->role = (unsigned char)role_of(search, (PyTypeObject *)row->type);
    }
    return row->role;
}

static void
take_referent(Search *search, PyObject *object)
{
    Row *row = row_of(search->table, (PyObject *)Py_TYPE(object));
    int role = row ? role_in(search, row) : NOTHING;
    if (row == NULL) {
        search->error = 1;
    } else if (role == HIDING) {
        take_hiding(search, object);
    } else if (role == NUMPY && !row->has_gc) {
        take_numpy(search, row, object);
    } else if (role == BYTES) {
        take_bytes(search, row, object);
    } else if (role == OTHER_ARRAY && !row->has_gc) {
        int is_full = 0;
        if (!is_met_again(search, row, object, &is_full)) {
            want_described(search, object);
        }
    }
}

/* Read the referents that were fetched ahead. */
static void
read_ahead(Search *search)
{
    size_t count = search->ahead_count;
    search->ahead_count = 0;
    search->cost += (Py_ssize_t)count;
    for (size_t i = 0; i < count && !search->error; i++) {
        take_referent(search, search->ahead[i]);
    }
}

/* One visit to the referents of an object. */
typedef struct {
    Search *search;
    Py_ssize_t done;  /* referents that earlier visits got through */
    Py_ssize_t seen;
    Py_ssize_t most;  /* cost from which a long visit stops */
    int stops;        /* a traverse may return anything: what counts is what the visit says */
} Visit;

static int
visit_referent(PyObject *object, void *argument)
{
    Visit *visit = argument;
    Search *search = visit->search;
    if (visit->seen++ < visit->done) {
        return 0;
    }
    __builtin_prefetch(object);
    search->ahead[search->ahead_count++] = object;
    if (search->ahead_count < AHEAD) {
        return 0;
    }
    read_ahead(search);
    Py_ssize_t now = visit->seen - visit->done;
    visit->stops = (now >= LONG_VISIT && search->cost >= visit->most) ||
                   (now >= LEAST_AT_ONCE && search->hiding_count >= MOST_HIDING) || search->error;
    return visit->stops;
}

static void
visit_items(PyObject *object, Visit *visit)
{
    int is_list = PyList_CheckExact(object);
    Py_ssize_t size = is_list ? PyList_Size(object) : PyTuple_Size(object);
    visit->seen = visit->done;
    while (visit->seen < size && !visit->stops) {
        PyObject *item = is_list ? PyList_GetItem(object, visit->seen)
                                 : PyTuple_GetItem(object, visit->seen);
        if (item == NULL) { /* a tuple that is still being filled */
            visit->seen++;
        } else {
            visit_referent(item, visit);
        }
    }
}

/* `at` is PyDict_Next's place in a dictionary. */
static void
visit_entries(PyObject *object, Visit *visit, Py_ssize_t *at)
{
    PyObject *key, *value;
    while (!visit->stops && PyDict_Next(object, at, &key, &value)) {
        visit_referent(key, visit);
        visit_referent(value, visit);
    }
}

/* Whether all referents were visited; `done` says where the next visit goes on. What can only be
 * read from its beginning is not read to its end if it is very long: to skip all that was read
 * would hold up the program again and again. */
static int
visit_all(Search *search, traverseproc traverse, PyObject *object, Py_ssize_t *done,
          Py_ssize_t most)
{
    Visit visit = {search, *done, 0, most, 0};
    if (PyDict_CheckExact(object) && PyDict_Size(object) >= LONG_VISIT) {
        visit.done = 0;
        visit_entries(object, &visit, done);
        return !visit.stops;
    }
    if ((PyList_CheckExact(object) && PyList_Size(object) >= LONG_VISIT) ||
        (PyTuple_CheckExact(object) && PyTuple_Size(object) >= LONG_VISIT)) {
        visit_items(object, &visit);
    } else if (traverse != NULL) {
        traverse(object, visit_referent, &visit);
        visit.stops = visit.stops && visit.seen < MOST_SKIPPED;
    }
    *done = visit.seen;
    return !visit.stops;
}

static traverseproc
traverse_of(PyObject *object)
{
    return (traverseproc)PyType_GetSlot(Py_TYPE(object), Py_tp_traverse);
}

/* Go through the dictionaries and tuples that wait: whether none waits any longer. */
static int
visit_hiding(Search *search, Py_ssize_t most)
{
    while (!search->error) {
        read_ahead(search);
        if (search->hiding_count == 0 || search->cost >= most) {
            break;
        }
        size_t at = search->hiding_count - 1;
        Hiding one = search->hiding[at];
        traverseproc traverse = traverse_of(one.object);
        if (visit_all(search, traverse, one.object, &one.done, most)) {
            search->hiding[at] = search->hiding[--search->hiding_count];
        } else {
            search->hiding[at] = one;
        }
    }
    return search->hiding_count == 0;
}

/* Before others run: hold what waits. `before` gets what was held until now. */
static void
hold_hiding(Search *search, Objects *before)
{
    *before = search->held;
    search->held = (Objects){0};
    for (size_t i = 0; i < search->hiding_count; i++) {
        if (add_object(&search->held, search->hiding[i].object) < 0) {
            search->hiding_count = i;
            break;
        }
        Py_INCREF(search->hiding[i].object);
    }
}

/* One row for an array: its type, and what each getter says; None for what raises. */
static PyObject *
described(Search *search, PyObject *array)
{
    PyObject *row = PyTuple_New(6);
    if (row == NULL) {
        return NULL;
    }
    Py_INCREF((PyObject *)Py_TYPE(array));
    PyTuple_SetItem(row, 0, (PyObject *)Py_TYPE(array));
    for (Py_ssize_t i = 0; i < 5; i++) {
        PyObject *value = got(search->getters[i], array);
        if (value == NULL) {
            Py_INCREF(Py_None);
            value = Py_None;
        }
        PyTuple_SetItem(row, i + 1, value);
    }
    return row;
}

/* Sort what is special into rows of facts and objects of other types; lets all go. */
static int
describe_special(Search *search, PyObject *rows, PyObject *others)
{
    int error = 0;
    Objects special = search->special;
    search->special = (Objects){0};
    for (size_t i = 0; i < special.count && !error; i++) {
        PyObject *array = special.items[i];
        if (search->array == NULL || !PyType_IsSubtype(Py_TYPE(array), search->array)) {
            error = PyList_Append(others, array);
            continue;
        }
        PyObject *row = described(search, array);
        error = row ? PyList_Append(rows, row) : -1;
        Py_XDECREF(row);
    }
    let_go(&special);
    return error;
}

static void
free_search(Search *search)
{
    Py_XDECREF((PyObject *)search->array);
    Py_XDECREF(search->others);
    Py_XDECREF((PyObject *)search->opaque);
    for (int i = 0; i < 5; i++) {
        Py_XDECREF(search->getters[i]);
    }
    let_go(&search->held);
    let_go(&search->special);
    free(search->hiding);
    free(search->shared.items);
}
