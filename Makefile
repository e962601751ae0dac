# Checks of the C code, without Python:
#
#   make check           every kernel of every ISA, the core and the pool
#   make check-sanitize  the same under ASan and UBSan; the pool under TSan
#   make check-neon      the same for 64-bit ARM, cross-compiled and emulated
#   make bench-kernels   times of each kernel
#   make warnings        all C by gcc and clang, warnings as errors
#   make format          clang-format in place; make clean
#
# Only gcc is needed for `make check`; whatever else is not installed is left out, and said so.

CC      = gcc
CLANG   = clang
CROSS   = aarch64-linux-gnu-gcc
QEMU    = qemu-aarch64 -L /usr/aarch64-linux-gnu
PYTHON  = python3
BUILD   = build/c/plain
VARIANT =

LIBRARY_FLAGS = -std=c11 -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math \
                -fvisibility=hidden -pthread
WARNINGS      = -Wall -Wextra -Wshadow

# The checks are not held to the kernels' floating-point flags: here every NaN and errno counts.
CHECK_FLAGS   = -std=c11 -O2 -ffp-contract=off -pthread $(WARNINGS)

LIBRARY = $(wildcard csrc/core/*.c csrc/isa/*.c)
CHECKS  = $(wildcard tests/c/*.c)
PYTHON_SOURCES = $(wildcard csrc/python/*.c)
HEADERS = $(wildcard csrc/*.h csrc/*/*.h csrc/kernel/*.inc.c tests/c/*.h)
OBJECTS = $(LIBRARY:%.c=$(BUILD)/%.o) $(CHECKS:%.c=$(BUILD)/%.o)

.PHONY: check check-sanitize check-neon bench-kernels warnings format clean build
.DELETE_ON_ERROR:

# The core by itself takes the best ISA, so the others come first.
check: build
	ATTNMOD_ISA=generic $(BUILD)/check core
	ATTNMOD_ISA=avx2 $(BUILD)/check core
	$(BUILD)/check

bench-kernels: build
	$(BUILD)/check --bench

build: $(BUILD)/check

$(BUILD)/check: $(OBJECTS)
	@$(CC) $(VARIANT) -pthread $^ -lm -o $@

$(BUILD)/csrc/%.o: csrc/%.c
	@mkdir -p $(@D) && echo "  $(CC)  $<"
	@$(CC) $(LIBRARY_FLAGS) $(WARNINGS) $(VARIANT) -DATTN_FAIL_ALLOC -g -MMD -MP -c $< -o $@

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D) && echo "  $(CC)  $<"
	@$(CC) $(CHECK_FLAGS) $(VARIANT) -DATTN_FAIL_ALLOC -g -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)

# Of two compilers the sanitizers of clang see more; they are taken where there is one.
SANITIZER_CC = $(if $(shell command -v $(CLANG)),$(CLANG),$(CC))

check-sanitize:
	$(MAKE) build BUILD=build/c/asan CC=$(SANITIZER_CC) \
	    VARIANT="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
	ASAN_OPTIONS=detect_leaks=1 build/c/asan/check --quick
	$(MAKE) build BUILD=build/c/tsan CC=$(SANITIZER_CC) VARIANT="-fsanitize=thread"
	TSAN_OPTIONS=die_after_fork=0 build/c/tsan/check --quick pool

check-neon:
	$(MAKE) build BUILD=build/c/neon CC=$(CROSS)
	$(QEMU) build/c/neon/check --quick --no-fork

# Conversions are checked where sizes and indices are computed, and not in the kernels' arithmetic.
PYTHON_INCLUDES = $(shell $(PYTHON) -c "import numpy, sysconfig; \
    print('-isystem', sysconfig.get_path('include'), '-isystem', numpy.get_include())" 2>/dev/null)
STRICT = $(LIBRARY_FLAGS) $(WARNINGS) -Werror

warnings:
	@for cc in $(CC) $(CLANG); do \
	    command -v $$cc >/dev/null || { echo "(no $$cc)"; continue; }; \
	    for file in $(wildcard csrc/core/*.c); do \
	        $$cc $(STRICT) -Wconversion -c $$file -o /dev/null || exit 1; done; \
	    for file in $(wildcard csrc/isa/*.c); do \
	        $$cc $(STRICT) -c $$file -o /dev/null || exit 1; done; \
	    for file in $(CHECKS); do \
	        $$cc $(CHECK_FLAGS) -Werror -DATTN_FAIL_ALLOC -c $$file -o /dev/null || exit 1; done; \
	    test -n "$(PYTHON_INCLUDES)" || { echo "(no NumPy headers)"; continue; }; \
	    for file in $(PYTHON_SOURCES); do \
	        $$cc $(STRICT) -Wconversion $(PYTHON_INCLUDES) -c $$file -o /dev/null || exit 1; done; \
	    echo "no warnings from $$cc"; \
	done
	@command -v $(CROSS) >/dev/null || { echo "(no $(CROSS))"; exit 0; }; \
	for file in $(LIBRARY); do $(CROSS) $(STRICT) -c $$file -o /dev/null || exit 1; done; \
	echo "no warnings from $(CROSS)"

format:
	clang-format -i $$(find csrc tests/c benchmarks -name '*.[ch]')

clean:
	rm -rf build/c
