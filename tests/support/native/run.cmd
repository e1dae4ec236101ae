@echo off
rem Runs the tests of the agent on this machine, which is to be thrown away: the arguments choose some.
set TEST_PROGRAMS=%~dp0
set RUST_TEST_THREADS=1
"%~dp0node.exe" %*
