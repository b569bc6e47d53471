"""Many processes: the same program on the devices of many hosts.

    $ mpirun -n 2 python train.py                    in it: tfn.distributed.initialize()
    $ python -m tfn.distributed run -n 2 train.py    the same, and again after a fault
    connect("ray", hosts="a:CPU*2,b:CPU*2")          in a script that runs once

Each of many processes runs the same script and holds the devices of its host; `tfn.devices()` lists
those of all.  A program over a mesh of them runs in all of its processes, and what crosses
processes goes through the transport.

A controller runs the script alone; the processes are its workers, and what it calls runs there.

Files in reading order:
    launchers       rank and size, as what has started the process says them
    transport       what carries messages between processes, and waiting for it with a deadline
    reduction       the arithmetic of messages
    mpi             the transport over MPI
    shared          the transport between processes of one host: memory that they share
    courier         the communication thread: messages beside the program
    security        who may take part: a token, and a range of addresses
    report          what a process tells its supervisor
    messages        messages of programs, prepared for their memory
    session         this process among the others: initialize, waiting, agreement on programs
    multihost       values of all processes: gathered, broadcast, compared
    specification   which hosts take part, read and checked
    mpirun          the command that starts a job
    supervisor      jobs that are started again after a fault
    __main__        its command line
    wire            messages of a controller to its workers
    worker          the process that holds arrays and runs programs
    relay           a command on another host, through its agent
    agent           the process on each host that starts a worker and speaks with it
    gang            agents on Ray
    remote          the device of a cluster, as the controller sees it
    controller      array operations as commands, sent together
    connection      connect: the cluster, and its restart
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.distributed.connection import Cluster as Cluster
    from tfn.distributed.connection import connect as connect
    from tfn.distributed.multihost import assert_equal as assert_equal
    from tfn.distributed.multihost import broadcast_one_to_all as broadcast_one_to_all
    from tfn.distributed.multihost import (
        global_array_to_host_local_array as global_array_to_host_local_array,
    )
    from tfn.distributed.multihost import (
        host_local_array_to_global_array as host_local_array_to_global_array,
    )
    from tfn.distributed.multihost import process_allgather as process_allgather
    from tfn.distributed.multihost import sync_global_devices as sync_global_devices
    from tfn.distributed.session import initialize as initialize
    from tfn.distributed.session import is_initialized as is_initialized
    from tfn.distributed.session import progress as progress
    from tfn.distributed.session import shutdown as shutdown
    from tfn.distributed.session import synchronize_clocks as synchronize_clocks
