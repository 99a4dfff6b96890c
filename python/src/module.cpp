// SPDX-License-Identifier: Apache-2.0
#include "module.h"

NB_MODULE(_core, m) {
  // Libraries that keep modules until the process ends (PyTorch's list of backends) are no fault of the
  // program.
  nanobind::set_leak_warnings(false);
  m.doc() = "Bindings of Lathe's public API. `import lathe` has them all.";
  lathe_python::bind_errors(m);
  lathe_python::bind_types(m);
  lathe_python::bind_memory(m);
  lathe_python::bind_plugin(m);
  lathe_python::bind_engine(m);
  lathe_python::bind_context(m);
  lathe_python::bind_network(m);
  lathe_python::bind_builder(m);
  lathe_python::bind_image(m);
}
