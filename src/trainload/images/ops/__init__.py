"""Operations on pictures, their random numbers, and what happens to one sample as plain numbers."""
