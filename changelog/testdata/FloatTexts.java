import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.util.Random;

// Prints what Double.toString and Float.toString make of edge cases and of random numbers: "java FloatTexts.java SEED COUNT".
public class FloatTexts {
    static final PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 20));

    static void print(double d) {
        out.println("d " + Long.toHexString(Double.doubleToRawLongBits(d)) + " " + d);
    }

    static void print(float f) {
        out.println("f " + Integer.toHexString(Float.floatToRawIntBits(f)) + " " + f);
    }

    public static void main(String[] args) {
        Random r = new Random(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        double[] special = {0, Double.MIN_VALUE, Double.MIN_NORMAL, Double.MAX_VALUE, 2e23, 1e23, 0.001, 0.00099999, 1e7,
            9999999.999999998, Double.POSITIVE_INFINITY, Double.NaN};
        for (double d : special) {
            print(d);
            print(-d);
            print((float) d);
        }
        // Around every power of two, where the distance to the next number changes.
        for (int e = 0; e < 2047; e += count < 5000 ? 31 : 1) {
            for (long f : new long[] {0, 1, 0xfffffffffffffL}) {
                print(Double.longBitsToDouble((long) e << 52 | f));
            }
        }
        for (int e = 0; e < 255; e += count < 5000 ? 5 : 1) {
            for (int f : new int[] {0, 1, 0x7fffff}) {
                print(Float.intBitsToFloat(e << 23 | f));
            }
        }
        for (int i = 0; i < count; i++) {
            switch (i % 6) {
                case 0: print(Double.longBitsToDouble(r.nextLong())); break;
                case 1: print(r.nextInt(2000000) / 100.0); break;
                case 2: print(r.nextLong() / 1000.0); break;
                case 3: print(Double.parseDouble(1 + r.nextInt(999) + "e" + (r.nextInt(600) - 300))); break;
                case 4: print((double) (r.nextLong() >> r.nextInt(63))); break;
                default: print(r.nextGaussian());
            }
            switch (i % 5) {
                case 0: print(Float.intBitsToFloat(r.nextInt())); break;
                case 1: print(r.nextInt(20000) / 100f); break;
                case 2: print((float) r.nextInt()); break;
                case 3: print(Float.parseFloat(1 + r.nextInt(99) + "e" + (r.nextInt(76) - 38))); break;
                default: print((float) r.nextGaussian());
            }
        }
        out.flush();
    }
}
