// A ball that bounces over a checkered floor. `clock` runs from 0 to 1.
#include "wood.inc"

camera { location <0, 2.5, -7> look_at <0, 1, 0> angle 45 }
light_source { <4, 8, -6> rgb 1 }
background { rgb <0.55, 0.7, 0.9> }

plane { y, 0 texture { Floor } }

#declare Height = abs(sin(3 * pi * clock)) * 1.6 * (1 - 0.5 * clock);
sphere { <-3 + 6 * clock, 0.5 + Height, 0>, 0.5
    pigment { rgb <0.9, 0.2, 0.1> }
    finish { specular 0.6 reflection 0.1 }
}
