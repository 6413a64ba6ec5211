/* recvmsg that hands out a packet's stamp as a number: loadgen/sut/stamped.py says the same in Python.

   Python's own recvmsg makes a list, tuples and bytes of the control messages for each answer, and takes memory for all
   that may come: together a tenth of what a request costs the load generator. The interpreter's lock is kept, because
   the socket never blocks. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#define MOST (1 << 16)

static PyObject *receive(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "receive takes a file descriptor and a number of bytes");
        return NULL;
    }
    int file = PyObject_AsFileDescriptor(arguments[0]);
    Py_ssize_t room = PyLong_AsSsize_t(arguments[1]);
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
            struct timespec came;
            __builtin_memcpy(&came, CMSG_DATA(each), sizeof came);
            stamp = came.tv_sec * 1000000000LL + came.tv_nsec;
        }
    return Py_BuildValue("y#L", bytes, (Py_ssize_t)got, stamp);
}

static PyMethodDef methods[] = {
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, "Like receive_in_python of loadgen.sut.stamped."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_stamped", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__stamped(void)
{
    return PyModule_Create(&definition);
}
