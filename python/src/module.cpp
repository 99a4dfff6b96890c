// SPDX-License-Identifier: Apache-2.0
#include "module.h"

NB_MODULE(_core, m) {
  m.doc() = "Bindings of Lathe's public API. `import lathe` has them all.";
  lathe_python::bind_errors(m);
  lathe_python::bind_types(m);
  lathe_python::bind_engine(m);
  lathe_python::bind_context(m);
  lathe_python::bind_network(m);
  lathe_python::bind_builder(m);
  lathe_python::bind_image(m);
}
