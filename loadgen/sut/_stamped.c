/* Receiving that says when the bytes had come, by the kernel's stamp: loadgen/sut/kernel_clock.py does the same in Python.

   Python's own recvmsg makes a list, tuples and bytes of the control messages for each answer, and takes memory for all
   that may come; putting the stamp on the monotonic clock takes a call of a Python function: together a tenth of what
   a request costs the load generator. The interpreter's lock is kept, because the socket never blocks. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stddef.h>
#include <structmember.h>
#include <sys/socket.h>
#include <time.h>

#define MOST (1 << 16)
#define NS(time) ((time).tv_sec * 1000000000LL + (time).tv_nsec)

typedef struct {
    PyObject_HEAD
    long long offset, due;
} ClockOffset;

static PyMemberDef offset_members[] = {
    {"offset", T_LONGLONG, offsetof(ClockOffset, offset), 0, NULL},
    {"due", T_LONGLONG, offsetof(ClockOffset, due), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot offset_slots[] = {
    {Py_tp_doc, "Like ClockOffset of loadgen.sut.kernel_clock."},
    {Py_tp_members, offset_members},
    {0, NULL},
};
static PyType_Spec offset_type = {
    "loadgen.sut._stamped.ClockOffset", sizeof(ClockOffset), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, offset_slots};

/* When bytes with this stamp had come; where that takes more than a subtraction, the clock's method says it. */
static PyObject *came(PyObject *clock, PyObject *channel, long long stamp, PyObject *sent)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    long long now = NS(time), begun = PyLong_AsLongLong(sent), at = stamp - ((ClockOffset *)clock)->offset;
    if (begun == -1 && PyErr_Occurred())
        return NULL;
    if (stamp != 0 && now < ((ClockOffset *)clock)->due && begun <= at && at <= now)
        return PyLong_FromLongLong(at);
    return PyObject_CallMethod(clock, "came", "OL", channel, stamp);
}

static PyObject *receive(PyObject *bound, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "receive takes a number of bytes and when the request was sent");
        return NULL;
    }
    int file = PyObject_AsFileDescriptor(PyTuple_GetItem(bound, 0));
    Py_ssize_t room = PyLong_AsSsize_t(arguments[0]);
    if (file < 0 || (room == -1 && PyErr_Occurred()))
        return NULL;
    if (room < 0 || room > MOST) {
        PyErr_SetString(PyExc_ValueError, "receive takes 0 to 65536 bytes");
        return NULL;
    }
    char bytes[MOST];
    union {
        struct cmsghdr aligned;
        char room[256];
    } control;
    struct iovec part = {bytes, (size_t)room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t got;
    do {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        got = recvmsg(file, &message, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    if (got < 0)
        return PyErr_Occurred() ? NULL : PyErr_SetFromErrno(PyExc_OSError);
    long long stamp = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each != NULL; each = CMSG_NXTHDR(&message, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SO_TIMESTAMPING) {
            struct timespec stamped;
            __builtin_memcpy(&stamped, CMSG_DATA(each), sizeof stamped);
            stamp = NS(stamped);
        }
    PyObject *data = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)got);
    PyObject *at = got == 0 ? PyLong_FromLong(0)
        : came(PyTuple_GetItem(bound, 1), PyTuple_GetItem(bound, 2), stamp, arguments[1]);
    PyObject *answer = data != NULL && at != NULL ? PyTuple_Pack(2, data, at) : NULL;
    Py_XDECREF(data);
    Py_XDECREF(at);
    return answer;
}

static PyMethodDef receive_method = {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, NULL};

static PyObject *receiver(PyObject *module, PyObject *bound)
{
    PyObject *type = PyObject_GetAttrString(module, "ClockOffset");
    int right = type == NULL ? -1
        : PyTuple_Size(bound) == 3 ? PyObject_IsInstance(PyTuple_GetItem(bound, 1), type) : 0;
    Py_XDECREF(type);
    if (right < 0)
        return NULL;
    if (right == 0) {
        PyErr_SetString(PyExc_TypeError, "receiver takes a file descriptor, a ClockOffset and a channel");
        return NULL;
    }
    return PyCFunction_NewEx(&receive_method, bound, NULL);
}

static PyMethodDef methods[] = {
    {"receiver", receiver, METH_VARARGS, "Like receiver_in_python of loadgen.sut.kernel_clock, of a file descriptor."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_stamped", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__stamped(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = PyType_FromSpec(&offset_type);
    if (module == NULL || type == NULL || PyModule_AddObjectRef(module, "ClockOffset", type) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(type);
    return module;
}
